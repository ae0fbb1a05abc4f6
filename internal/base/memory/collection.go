package memory

import (
	"context"
	"os"
	"runtime/debug"
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
// (GOMEMLIMIT) is respected. If GOGC is set in the environment, relaxUntil does nothing.
func relaxUntil(ctx context.Context, started <-chan struct{}) {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(startPercent)
	defer debug.SetGCPercent(defaultPercent)
	select {
	case <-started:
	case <-ctx.Done():
	}
}
