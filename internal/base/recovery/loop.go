package recovery

import (
	"context"
	"errors"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/retry"
)

const (
	// minBackoff is the delay after the first panic. It doubles with each further one up to
	// maxBackoff. After a run that lasted longer than resetAfter it starts again from minBackoff.
	minBackoff = time.Second
	maxBackoff = time.Minute
	resetAfter = 10 * time.Minute
)

// Loop runs a task until it returns, and returns its error. A run that panics is restarted after a
// backoff, unless ctx has ended: then Loop returns nil. The context of a run ends with the run, and
// with it the goroutines that the run started.
//
// run must be able to restart after any panic: it creates its state in the call, or keeps it behind
// locks that are released by defer. name is the task in the log. Without a Recorder in the context
// a panic is not recovered.
func Loop(ctx context.Context, name string, run func(ctx context.Context) error) error {
	backoff := retry.NewBackoff(minBackoff, maxBackoff)
	for {
		began := time.Now()
		err := Call(ctx, "task", func() error {
			running, end := context.WithCancel(ctx)
			defer end()
			return run(running)
		}, "task", name)
		if panicked := (*Error)(nil); !errors.As(err, &panicked) {
			return err
		}
		if time.Since(began) > resetAfter {
			backoff.Reset()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(backoff.NextBackOff()):
		}
	}
}
