package memory

import (
	"context"
	"runtime/debug"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestRelaxUntil checks that garbage is collected less often until the start is over or the context
// ends, and that a GOGC of the user stays.
func TestRelaxUntil(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(defaultPercent))
	for name, end := range map[string]func(started chan struct{}, cancel func()){
		"started":  func(started chan struct{}, _ func()) { close(started) },
		"canceled": func(_ chan struct{}, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
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
	t.Run("set by the user", func(t *testing.T) {
		debug.SetGCPercent(50)
		relaxUntil(t.Context(), nil) // returns at once
		if got := gcPercent(); got != 50 {
			t.Errorf("GOGC is %d, want 50", got)
		}
	})
}
