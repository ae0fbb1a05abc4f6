package memory

import (
	"context"
	runtimemetrics "runtime/metrics"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// gcPercent returns the present value of GOGC.
func gcPercent() int {
	sample := []runtimemetrics.Sample{{Name: "/gc/gogc:percent"}}
	runtimemetrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// TestRelaxUntil checks that garbage is collected less often until the start is over or the context
// ends, and that the environment has precedence.
func TestRelaxUntil(t *testing.T) {
	for name, end := range map[string]func(started chan struct{}, cancel func()){
		"started":  func(started chan struct{}, _ func()) { close(started) },
		"canceled": func(_ chan struct{}, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			started := make(chan struct{})
			running := serving.NewGroup(t)
			running.Go(func(testing.TB) { relaxUntil(ctx, started) })
			serving.Until(t, 10*time.Second, "GOGC is raised", func() bool { return gcPercent() == startPercent })
			end(started, cancel)
			running.Wait()
			if got := gcPercent(); got != defaultPercent {
				t.Errorf("afterwards GOGC is %d, want %d", got, defaultPercent)
			}
		})
	}
	t.Run("environment", func(t *testing.T) {
		t.Setenv("GOGC", "50")
		relaxUntil(t.Context(), nil) // returns at once
		if got := gcPercent(); got != defaultPercent {
			t.Errorf("GOGC is %d, want %d", got, defaultPercent)
		}
	})
}
