package memory

import (
	"context"
	"runtime"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestMemoryIsReleased checks that half a minute after a burst, which left garbage behind, the process
// has the footprint of before.
func TestMemoryIsReleased(t *testing.T) {
	longtest.Test(t)
	runtime.GC()
	before := footprint()
	ctx, cancel := context.WithCancel(t.Context())
	running := serving.NewGroup(t)
	running.Go(func(testing.TB) { releaseAfterBursts(ctx, before) })
	defer running.Wait()
	defer cancel()
	burst := make([][]byte, 640)
	for i := range burst {
		burst[i] = make([]byte, 1<<20)
		for at := 0; at < len(burst[i]); at += 4096 {
			burst[i][at] = 1
		}
	}
	if grown := footprint() - before; grown < 300<<20 {
		t.Fatalf("the burst allocated only %d MiB: the test is not effective", grown>>20)
	}
	clear(burst)
	serving.Until(t, 3*interval, "the memory is released", func() bool { return footprint() < before+64<<20 })
}
