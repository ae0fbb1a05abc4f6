package discovery

import (
	"context"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"
)

const (
	// memoryInterval is how often the footprint is compared.
	memoryInterval = 10 * time.Second
	// memorySlack is by how much the footprint may grow, besides half of it, before memory is released.
	memorySlack = 32 << 20
)

// releaseMemory returns memory to the operating system after a burst, until the context ends. An idle Go process collects garbage
// only every two minutes, and keeps what pools hold until the second collection: after a flood of large messages the process would
// stay large for minutes. A collection is forced only when the footprint has grown by half and 32 MiB since the last one.
// So lasting growth costs a few collections, and a steady process is never collected by it.
func releaseMemory(ctx context.Context) {
	tick := time.NewTicker(memoryInterval)
	defer tick.Stop()
	baseline := footprint()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := footprint(); now < baseline+baseline/2+memorySlack {
			baseline = min(baseline, now)
			continue
		}
		runtime.GC() // empties the pools
		debug.FreeOSMemory()
		baseline = footprint()
	}
}

// footprint returns the memory that the Go runtime has and has not returned to the operating system, in bytes.
func footprint() uint64 {
	samples := []runtimemetrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	runtimemetrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}
