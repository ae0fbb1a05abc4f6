package serving

import (
	"errors"
	"testing"
	"time"
)

// The condition is polled often at first, because most conditions hold at once, and then every
// slowPoll.
const (
	firstPoll = time.Millisecond
	slowPoll  = 20 * time.Millisecond
)

// Eventually waits until a check has no error. If it still has one when the limit is over, the test
// ends with it; what describes the condition. The check is made on the test's goroutine, at least
// once, and may end the test itself.
func Eventually(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for pause := firstPoll; ; pause = min(2*pause, slowPoll) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", what, limit, err)
		}
		time.Sleep(pause)
	}
}

var errNotSo = errors.New("it is not so")

// Until is Eventually with a condition without an error.
func Until(t testing.TB, limit time.Duration, what string, so func() bool) {
	t.Helper()
	Eventually(t, limit, what, func() error {
		if so() {
			return nil
		}
		return errNotSo
	})
}
