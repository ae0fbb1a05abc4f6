package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
)

func TestSystemFollowsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.System{}
		begin := c.Now()
		if at := <-c.After(time.Hour); at.Sub(begin) != time.Hour || !c.Now().Equal(at) {
			t.Errorf("After(1h) receives %s after %s", at, begin)
		}
		if at := <-c.After(-time.Second); !at.Equal(c.Now()) {
			t.Errorf("After(-1s) receives %s, want the present time %s", at, c.Now())
		}
	})
}
