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
	// requestHeaders and responseHeaders are proxy-wasm's numbers for those maps (MapType), and
	// goOn is for going on with them (FilterHeadersStatus.Continue).
	requestHeaders, responseHeaders, goOn = 0, 2, 0
	// textAt is the address of texts in the module's memory, and heapAt the start of allocations by
	// the host.
	textAt, heapAt = 1024, 4096
)

// AddsHeader returns a module that adds a header to each response.
func AddsHeader(name, value string) []byte {
	return addingModule(responseHeaders, "proxy_on_response_headers", name, value)
}

// AddsRequestHeader returns a module that adds a header to each request.
func AddsRequestHeader(name, value string) []byte {
	return addingModule(requestHeaders, "proxy_on_request_headers", name, value)
}

// addingModule returns a module that adds a header to a map when it is called by that name.
func addingModule(to int, when, name, value string) []byte {
	types := encodeVector(
		functionType(0, 0),
		functionType(1, 1),
		functionType(3, 1),
		functionType(5, 1),
		functionType(2, 0),
	)
	const nothing, allocate, onHeaders, addHeader, onCreate = 0, 1, 2, 3, 4 // places in types
	imports := encodeVector(
		slices.Concat(encodeText("env"), encodeText("proxy_add_header_map_value"), []byte{exportFunction, addHeader}),
	)
	exports := encodeVector(
		slices.Concat(encodeText("memory"), []byte{exportMemory, 0}),
		// The imported function is number 0.
		slices.Concat(encodeText("proxy_abi_version_0_2_1"), []byte{exportFunction, 1}),
		slices.Concat(encodeText("proxy_on_memory_allocate"), []byte{exportFunction, 2}),
		slices.Concat(encodeText(when), []byte{exportFunction, 3}),
		slices.Concat(encodeText("proxy_on_context_create"), []byte{exportFunction, 4}),
	)
	code := encodeVector(
		functionBody(),
		functionBody(
			[]byte{opGlobalGet, 0, opGlobalGet, 0, opLocalGet, 0, opAdd, opGlobalSet, 0},
		), // the old end is the start of the allocation
		functionBody(
			constantCode(to),
			constantCode(textAt),
			constantCode(len(name)),
			constantCode(textAt+len(name)),
			constantCode(len(value)),
			[]byte{opCall, 0, opDrop},
			constantCode(goOn),
		),
		functionBody(),
	)
	return slices.Concat(
		[]byte("\x00asm\x01\x00\x00\x00"),
		encodeSection(
			1,
			types,
		),
		encodeSection(2, imports),
		encodeSection(3, encodeVector([]byte{nothing}, []byte{allocate}, []byte{onHeaders}, []byte{onCreate})),
		encodeSection(5, encodeVector([]byte{0, 1})), // a page of memory, and more if need be
		encodeSection(6, encodeVector(slices.Concat([]byte{typeI32, 1}, constantCode(heapAt), []byte{opEnd}))),
		encodeSection(7, exports),
		encodeSection(10, code),
		encodeSection(
			11,
			encodeVector(slices.Concat([]byte{0}, constantCode(textAt), []byte{opEnd}, encodeText(name+value))),
		),
	)
}

func encodeSection(id byte, content []byte) []byte {
	return slices.Concat([]byte{id}, encodeNumber(len(content)), content)
}

func encodeVector(items ...[]byte) []byte {
	return slices.Concat(encodeNumber(len(items)), slices.Concat(items...))
}

func encodeText(s string) []byte { return slices.Concat(encodeNumber(len(s)), []byte(s)) }

// functionType is the type of a function with that many parameters and results.
func functionType(takes, gives int) []byte {
	return slices.Concat(
		[]byte{typeFunction},
		encodeNumber(takes),
		slices.Repeat([]byte{typeI32}, takes),
		encodeNumber(gives),
		slices.Repeat([]byte{typeI32}, gives),
	)
}

// functionBody is the code of a function without variables.
func functionBody(code ...[]byte) []byte {
	b := slices.Concat([]byte{0}, slices.Concat(code...), []byte{opEnd})
	return slices.Concat(encodeNumber(len(b)), b)
}

func constantCode(n int) []byte { return append([]byte{opConst}, encodeSigned(n)...) }

// encodeNumber is n, which is not negative, in LEB128.
func encodeNumber(n int) (b []byte) {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// encodeSigned is the same with a sign, which is the highest bit of the last byte.
func encodeSigned(n int) (b []byte) {
	for ; n >= 0x40; n >>= 7 {
		b = append(b, byte(n&0x7f)|0x80)
	}
	return append(b, byte(n))
}
