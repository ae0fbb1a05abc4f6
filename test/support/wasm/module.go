package wasm

import "slices"

// Opcodes and types that the modules use.
const (
	typeI32, typeFunction = 0x7f, 0x60
	opEnd, opCall, opDrop = 0x0b, 0x10, 0x1a
	opLocalGet            = 0x20
	opGlobalGet           = 0x23
	opGlobalSet           = 0x24
	opConst, opAdd        = 0x41, 0x6a

	exportFunction, exportMemory = 0, 2
)

const (
	// requestHeaders and responseHeaders are proxy-wasm's numbers for those maps (MapType), and goOn is for going on with them
	// (FilterHeadersStatus.Continue).
	requestHeaders, responseHeaders, goOn = 0, 2, 0
	// textAt is the address of texts in the module's memory, and heapAt the start of allocations by
	// the host.
	textAt, heapAt = 1024, 4096
)

// AddsHeader returns a module that adds a header to each response.
func AddsHeader(name, value string) []byte {
	return adds(responseHeaders, "proxy_on_response_headers", name, value)
}

// AddsRequestHeader returns a module that adds a header to each request.
func AddsRequestHeader(name, value string) []byte {
	return adds(requestHeaders, "proxy_on_request_headers", name, value)
}

// adds returns a module that adds a header to a map when it is called by that name.
func adds(to int, when, name, value string) []byte {
	types := vector(function(0, 0), function(1, 1), function(3, 1), function(5, 1), function(2, 0))
	const nothing, allocate, onHeaders, addHeader, onCreate = 0, 1, 2, 3, 4 // places in types
	imports := vector(slices.Concat(text("env"), text("proxy_add_header_map_value"), []byte{exportFunction, addHeader}))
	exports := vector(
		slices.Concat(text("memory"), []byte{exportMemory, 0}),
		// The imported function is number 0.
		slices.Concat(text("proxy_abi_version_0_2_1"), []byte{exportFunction, 1}),
		slices.Concat(text("proxy_on_memory_allocate"), []byte{exportFunction, 2}),
		slices.Concat(text(when), []byte{exportFunction, 3}),
		slices.Concat(text("proxy_on_context_create"), []byte{exportFunction, 4}),
	)
	code := vector(
		body(),
		body([]byte{opGlobalGet, 0, opGlobalGet, 0, opLocalGet, 0, opAdd, opGlobalSet, 0}), // the old end is the start of the allocation
		body(constant(to), constant(textAt), constant(len(name)), constant(textAt+len(name)), constant(len(value)), []byte{opCall, 0, opDrop}, constant(goOn)),
		body(),
	)
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, types), section(2, imports), section(3, vector([]byte{nothing}, []byte{allocate}, []byte{onHeaders}, []byte{onCreate})),
		section(5, vector([]byte{0, 1})), // a page of memory, and more if need be
		section(6, vector(slices.Concat([]byte{typeI32, 1}, constant(heapAt), []byte{opEnd}))),
		section(7, exports), section(10, code),
		section(11, vector(slices.Concat([]byte{0}, constant(textAt), []byte{opEnd}, text(name+value)))),
	)
}

func section(id byte, content []byte) []byte {
	return slices.Concat([]byte{id}, number(len(content)), content)
}

func vector(items ...[]byte) []byte {
	return slices.Concat(number(len(items)), slices.Concat(items...))
}

func text(s string) []byte { return slices.Concat(number(len(s)), []byte(s)) }

// function is the type of a function with that many parameters and results.
func function(takes, gives int) []byte {
	return slices.Concat([]byte{typeFunction}, number(takes), slices.Repeat([]byte{typeI32}, takes), number(gives), slices.Repeat([]byte{typeI32}, gives))
}

// body is the code of a function without variables.
func body(code ...[]byte) []byte {
	b := slices.Concat([]byte{0}, slices.Concat(code...), []byte{opEnd})
	return slices.Concat(number(len(b)), b)
}

func constant(n int) []byte { return append([]byte{opConst}, signed(n)...) }

// number is n, which is not negative, in LEB128.
func number(n int) (b []byte) {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// signed is the same with a sign, which is the highest bit of the last byte.
func signed(n int) (b []byte) {
	for ; n >= 0x40; n >>= 7 {
		b = append(b, byte(n&0x7f)|0x80)
	}
	return append(b, byte(n))
}
