package memory

import (
	"context"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
)

const (
	// defaultPercent is Go's default of GOGC: garbage is collected when the heap has grown by so many
	// percent.
	defaultPercent = 100
	// startPercent is the value of relaxUntil.
	startPercent = 200
)

// relaxUntil lets garbage be collected half as often until started is closed or the context ends. A
// process that starts reads all its objects, of which most stay: the collector goes through them
// again and again and frees little. The heap is up to half larger meanwhile, and a memory limit
// (GOMEMLIMIT) is respected. If GOGC is not Go's default, relaxUntil does nothing.
func relaxUntil(ctx context.Context, started <-chan struct{}) {
	if gcPercent() != defaultPercent {
		return
	}
	debug.SetGCPercent(startPercent)
	defer debug.SetGCPercent(defaultPercent)
	select {
	case <-started:
	case <-ctx.Done():
	}
}

// gcPercent returns the present value of GOGC.
func gcPercent() uint64 {
	sample := []runtimemetrics.Sample{{Name: "/gc/gogc:percent"}}
	runtimemetrics.Read(sample)
	return sample[0].Value.Uint64()
}
