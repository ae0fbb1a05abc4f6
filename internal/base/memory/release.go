// Package memory adjusts the garbage collector to a control plane: garbage is collected less often
// until the process has started, and memory is returned to the operating system after bursts.
package memory

import (
	"context"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"
)

const (
	// interval is how often the footprint is compared.
	interval = 10 * time.Second
	// slack is how much the footprint may grow, besides by half, before memory is released.
	slack = 32 << 20
)

// Run adjusts the garbage collector until the context ends. Until started is closed, garbage is
// collected less often (relaxUntil). Then memory is released after each burst; the start counts as
// the first one.
func Run(ctx context.Context, started <-chan struct{}) {
	baseline := footprint()
	relaxUntil(ctx, started)
	releaseAfterBursts(ctx, baseline)
}

// releaseAfterBursts returns memory to the operating system after each burst, until the context
// ends. baseline is the footprint before the first one.
//
// An idle Go process collects garbage only every two minutes, so after a flood of large messages the
// process would stay large for minutes. A collection is forced only when the footprint has grown by
// half and 32 MiB since the last one. So lasting growth costs a few collections, and a process of
// constant size none. The unused buffers of sync.Pools are released by the next collection, because
// a second one would double the CPU time for them alone.
func releaseAfterBursts(ctx context.Context, baseline uint64) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := footprint(); now < baseline+baseline/2+slack {
			baseline = min(baseline, now)
			continue
		}
		debug.FreeOSMemory() // collects garbage first
		baseline = footprint()
	}
}

// footprint returns how many bytes the Go runtime has obtained from the operating system and not
// returned.
func footprint() uint64 {
	samples := []runtimemetrics.Sample{{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}}
	runtimemetrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}
