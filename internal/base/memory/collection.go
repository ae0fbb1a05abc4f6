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

// relaxUntil halves the frequency of garbage collections until started is closed or the context ends,
// by setting GOGC to startPercent. During the start most allocated objects stay in use, so a
// collection frees little. Until then the heap may be 50 % larger than usual; GOMEMLIMIT still
// applies. If GOGC is not Go's default, relaxUntil does nothing.
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
