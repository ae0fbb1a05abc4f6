package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/xds/push"
)

func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(10, push.SystemClock{})
		began := time.Now()
		var at []time.Duration
		for range 13 {
			if err := a.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			at = append(at, time.Since(began))
		}
		if at[9] != 0 || at[10] != 100*time.Millisecond || at[12] != 300*time.Millisecond {
			t.Errorf("streams were taken at %v, want ten at once and then one each 100ms", at)
		}
		time.Sleep(time.Minute)
		if began = time.Now(); a.wait(t.Context()) != nil || time.Since(began) != 0 {
			t.Error("a stream had to wait after a quiet minute")
		}
	})
}

func TestAdmissionRefusesWhatCannotBeServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, push.SystemClock{})
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 100)
		for range 100 {
			go func() { errs <- a.wait(ctx) }()
		}
		synctest.Wait()
		refused := 0
		for range len(errs) {
			if err := <-errs; status.Code(err) == codes.ResourceExhausted {
				refused++
			}
		}
		if refused != 79 { // one at once, twenty that wait up to 20 s
			t.Errorf("%d of 100 refused, want 79", refused)
		}
		cancel()
		synctest.Wait()
		if n := len(errs); n != 20 {
			t.Errorf("%d of those that waited were let go, want 20", n)
		}
		if err := <-errs; status.Code(err) != codes.Canceled {
			t.Errorf("the error is %v, want Canceled", err)
		}
	})
}

func TestNoAdmission(t *testing.T) {
	a := newAdmission(0, push.SystemClock{})
	for range 10000 {
		if err := a.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
