package retry_test

import (
	"slices"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/retry"
)

func TestNewBackoff(t *testing.T) {
	b := retry.NewBackoff(time.Second, 10*time.Second)
	next := func(n int) (seconds []float64) {
		for range n {
			seconds = append(seconds, b.NextBackOff().Seconds())
		}
		return seconds
	}
	if got, want := next(6), []float64{1, 2, 4, 8, 10, 10}; !slices.Equal(got, want) {
		t.Errorf("the delays are %v, want %v", got, want)
	}
	for range 1000 {
		b.NextBackOff()
	}
	if got := b.NextBackOff(); got != 10*time.Second {
		t.Errorf("the delay after 1000 others is %v", got)
	}
	b.Reset()
	if got, want := next(2), []float64{1, 2}; !slices.Equal(got, want) {
		t.Errorf("the delays after Reset are %v, want %v", got, want)
	}
	b = retry.NewBackoff(time.Minute, 10*time.Second)
	if got, want := next(2), []float64{10, 10}; !slices.Equal(got, want) {
		t.Errorf("the delays of a first one above the limit are %v, want %v", got, want)
	}
}
