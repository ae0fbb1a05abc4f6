package server

import (
	"runtime"
	"testing"
)

// idleLimit is the maximum cost in bytes of an idle stream on its own connection, with everything
// that gRPC allocates. Most of it is the stacks of gRPC's three goroutines for the connection and
// two for the stream.
const idleLimit = 48 << 10

func TestIdleStreamIsCheap(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes stacks bigger")
	}
	if u := measureIdle(t, 200); u.bytes > idleLimit || u.goroutines > 5.1 {
		t.Errorf("an idle stream costs %.0f bytes (heap %.0f, stacks %.0f) and %.1f goroutines, want at most %d and 5",
			u.bytes, u.heap, u.stack, u.goroutines, idleLimit)
	}
}

func BenchmarkIdleStream(b *testing.B) {
	for b.Loop() {
		u := measureIdle(b, 1000)
		b.ReportMetric(u.bytes, "B/stream")
		b.ReportMetric(u.stack, "B-stack/stream")
		b.ReportMetric(u.heap, "B-heap/stream")
		b.ReportMetric(u.goroutines, "goroutines/stream")
	}
}

// usage is the cost of one stream.
type usage struct{ bytes, heap, stack, goroutines float64 }

// measureIdle opens streams as Envoy does, waits until they are idle, and returns the resources
// used per stream.
func measureIdle(tb testing.TB, streams int) usage {
	h := serve(tb, 20, Options{})
	warm := dialRaw(tb, h.addr, 1<<20) // memory that all streams share is allocated before the measurement
	warm.start(tb, realNode(tb, 0))
	before, goroutines := settle()
	conns := make([]*raw, streams)
	for i := range conns {
		conns[i] = dialRaw(tb, h.addr, 1<<20)
		conns[i].start(tb, realNode(tb, i%250))
	}
	h.wait("all streams are open", func() bool { return h.pusher.Reports().Stats().Clients == streams+1 })
	after, more := settle()
	for _, c := range append(conns, warm) {
		c.Close()
	}
	h.wait("all streams are closed", func() bool { return h.pusher.Reports().Stats().Clients == 0 })
	n := float64(streams)
	heap := float64(after.HeapAlloc) - float64(before.HeapAlloc)
	stack := float64(after.StackInuse) - float64(before.StackInuse)
	return usage{bytes: (heap + stack) / n, heap: heap / n, stack: stack / n, goroutines: float64(more-goroutines) / n}
}

// settle collects garbage until stacks have shrunk and pools are empty.
func settle() (runtime.MemStats, int) {
	for range 4 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m, runtime.NumGoroutine()
}
