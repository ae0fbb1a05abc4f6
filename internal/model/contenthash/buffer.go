package contenthash

import (
	"encoding/binary"
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

// Map appends the number of entries of m, and the sum of a hash of each entry. So the order in which
// Go iterates over m has no effect, and its keys need not be sorted. A nil map is encoded like an
// empty one.
func (b *Buffer) Map(m map[string]string) {
	var sum uint64
	for k, v := range m {
		sum += hashEntry(k, xxhash.Sum64String(v))
	}
	b.Uint32(uint32(len(m)))
	b.Uint64(sum)
}

// Uint32s appends the number of entries of m, and the sum of a hash of each entry, as Map does. A
// nil map is encoded like an empty one.
func (b *Buffer) Uint32s(m map[string]uint32) {
	var sum uint64
	for k, v := range m {
		sum += hashEntry(k, uint64(v))
	}
	b.Uint32(uint32(len(m)))
	b.Uint64(sum)
}

// hashEntry returns the hash of an entry of a map. value is the entry's value, or the hash of that.
func hashEntry(key string, value uint64) uint64 {
	var both [16]byte
	binary.LittleEndian.PutUint64(both[:8], xxhash.Sum64String(key))
	binary.LittleEndian.PutUint64(both[8:], value)
	return xxhash.Sum64(both[:])
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
