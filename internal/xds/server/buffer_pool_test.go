package server

import (
	"testing"

	"google.golang.org/grpc/mem"
)

var _ mem.BufferPool = (*bufferPool)(nil)

// TestBufferPool checks that a buffer has the requested length and the capacity of the smallest tier
// that has room for it, and is used again for requests of its tier only.
func TestBufferPool(t *testing.T) {
	for _, c := range []struct{ length, capacity int }{
		{0, 1 << 10}, {1, 1 << 10}, {1 << 10, 1 << 10}, {1<<10 + 1, 2 << 10},
		{56 << 10, 64 << 10}, {64 << 10, 64 << 10}, {16 << 20, 16 << 20},
	} {
		var pool bufferPool
		buffer := pool.Get(c.length)
		if len(*buffer) != c.length || cap(*buffer) != c.capacity {
			t.Errorf("Get(%d): length %d, capacity %d, want %d", c.length, len(*buffer), cap(*buffer), c.capacity)
		}
		*buffer = (*buffer)[:c.length/2] // gRPC returns a prefix
		pool.Put(buffer)
		for tier := range pool.tiers {
			if used := pool.tiers[tier].Get() != nil; used != (1<<(tier+minBufferExponent) == c.capacity) && !raceDetector {
				t.Errorf("after Put of %d bytes: tier of %d bytes has a buffer: %t", c.capacity, 1<<(tier+minBufferExponent), used)
			}
		}
	}
}

// TestBufferPoolDropsOthers checks that a buffer is not pooled if it is larger than all tiers, or its
// capacity is not that of a tier.
func TestBufferPoolDropsOthers(t *testing.T) {
	var pool bufferPool
	large := pool.Get(16<<20 + 1)
	if len(*large) != 16<<20+1 {
		t.Fatalf("Get(%d): length %d", 16<<20+1, len(*large))
	}
	odd := make([]byte, 3<<10)
	pool.Put(large)
	pool.Put(&odd)
	for tier := range pool.tiers {
		if pool.tiers[tier].Get() != nil {
			t.Errorf("tier of %d bytes has a buffer", 1<<(tier+minBufferExponent))
		}
	}
}
