package contenthash

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// Buffer is the encoding of some fields. The zero value is empty. Appending to b[:0] reuses its memory.
type Buffer []byte

// Uint32 appends n.
func (b *Buffer) Uint32(n uint32) { *b = binary.LittleEndian.AppendUint32(*b, n) }

// Uint64 appends n.
func (b *Buffer) Uint64(n uint64) { *b = binary.LittleEndian.AppendUint64(*b, n) }

// Text appends the length of s, and s.
func (b *Buffer) Text(s string) {
	b.Uint32(uint32(len(s)))
	*b = append(*b, s...)
}

// Bytes appends the length of p, and its content.
func (b *Buffer) Bytes(p []byte) {
	b.Uint32(uint32(len(p)))
	*b = append(*b, p...)
}

// Texts appends the length of a list, and its texts in their order.
func (b *Buffer) Texts(list []string) {
	b.Uint32(uint32(len(list)))
	for _, s := range list {
		b.Text(s)
	}
}

// Map appends the number of entries of m, and the entries sorted by key. A nil map is encoded like
// an empty one.
func (b *Buffer) Map(m map[string]string) {
	b.Uint32(uint32(len(m)))
	for _, k := range sortedKeys(m) {
		b.Text(k)
		b.Text(m[k])
	}
}

// Uint32s appends the number of entries of m, and the entries sorted by key. A nil map is encoded
// like an empty one.
func (b *Buffer) Uint32s(m map[string]uint32) {
	b.Uint32(uint32(len(m)))
	for _, k := range sortedKeys(m) {
		b.Text(k)
		b.Uint32(m[k])
	}
}

// sortedKeys returns the keys of m in ascending order. Unlike slices.Sorted it allocates once.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Bools appends at most eight booleans as one byte, the first in its lowest bit. Further ones are
// lost.
func (b *Buffer) Bools(list ...bool) {
	var set byte
	for i, on := range list {
		if on {
			set |= 1 << i
		}
	}
	*b = append(*b, set)
}

// Sum returns the hash (xxhash) of all that was appended, and leaves b unchanged.
func (b *Buffer) Sum() uint64 { return xxhash.Sum64(*b) }

// buffers has Buffers (*Buffer) for Of.
var buffers = sync.Pool{New: func() any { return new(Buffer) }}

// maxPooled is the capacity above which Of does not keep a buffer.
const maxPooled = 64 << 10

// Of returns the hash of all that write appends to an empty Buffer. write must not keep the Buffer.
func Of(write func(b *Buffer)) uint64 {
	b := buffers.Get().(*Buffer)
	*b = (*b)[:0]
	write(b)
	sum := b.Sum()
	if cap(*b) <= maxPooled {
		buffers.Put(b)
	}
	return sum
}
