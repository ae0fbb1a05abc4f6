package server

import (
	"math/bits"
	"sync"
)

// The pool has a tier for each power of two from 1<<minBufferExponent to 1<<maxBufferExponent bytes.
// gRPC allocates buffers of at most 1 KiB itself, and no request is longer than 16 MiB by default.
const (
	minBufferExponent = 10
	maxBufferExponent = 24
)

// buffers are the receive buffers of all ports.
var buffers bufferPool

// bufferPool is a mem.BufferPool for received frames and messages. gRPC's own pool zeroes the whole
// capacity of a buffer before each use, and has no size between 32 KiB and 1 MiB, so a node of
// 60 KB would cost 1 MiB of zeroes and memory. This one does not zero a buffer that is used again:
// its content is that of other messages until it is overwritten. The zero value is an empty pool.
type bufferPool struct {
	tiers [maxBufferExponent - minBufferExponent + 1]sync.Pool // of *[]byte, whose capacity is the tier's size
}

// tierOf returns the tier of the smallest buffers that have room for size bytes. Sizes that are not
// pooled result in one beyond the last tier.
func tierOf(size int) int {
	exponent := bits.Len(uint(max(size, 1) - 1))
	return max(exponent, minBufferExponent) - minBufferExponent
}

// Get implements mem.BufferPool. It returns a buffer of the given length with any content.
func (p *bufferPool) Get(length int) *[]byte {
	tier := tierOf(length)
	if tier >= len(p.tiers) {
		buffer := make([]byte, length)
		return &buffer
	}
	if buffer, ok := p.tiers[tier].Get().(*[]byte); ok {
		*buffer = (*buffer)[:length]
		return buffer
	}
	buffer := make([]byte, length, 1<<(tier+minBufferExponent))
	return &buffer
}

// Put implements mem.BufferPool. It drops a buffer whose capacity is not the size of a tier.
func (p *bufferPool) Put(buffer *[]byte) {
	tier := tierOf(cap(*buffer))
	if tier < len(p.tiers) && cap(*buffer) == 1<<(tier+minBufferExponent) {
		p.tiers[tier].Put(buffer)
	}
}
