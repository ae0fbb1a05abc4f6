package server

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/xds/push"
)

func TestFixedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(0, 10, push.SystemClock{})
		began := time.Now()
		var at []time.Duration
		for range 13 {
			if err := a.begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			at = append(at, time.Since(began))
		}
		if at[9] != 0 || at[10] != 100*time.Millisecond || at[12] != 300*time.Millisecond {
			t.Errorf("streams were taken at %v, want ten at once and then one each 100ms", at)
		}
		time.Sleep(time.Minute)
		if began = time.Now(); a.begin(t.Context()) != nil || time.Since(began) != 0 {
			t.Error("a stream had to wait after a quiet minute")
		}
	})
}

func TestFixedRateRefusesWhatCannotBeServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(0, 1, push.SystemClock{})
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 100)
		for range 100 {
			go func() { errs <- a.begin(ctx) }()
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

// TestAdmissionIsByCost has streams that cost different times: the places are never more than there are, the order is that of
// coming, and ten thousand that cost nothing need no time.
func TestAdmissionIsByCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(2, 0, push.SystemClock{})
		var order []int
		for i, cost := range []time.Duration{100 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
			go func() {
				leave, err := a.enter(t.Context(), a.opening)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i) // one bubble, and no two wake at the same time
				time.Sleep(cost)
				leave()
				leave() // once too often does no harm
			}()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !slices.IsSorted(order) || len(order) != 5 {
			t.Errorf("the order was %v", order)
		}
		began := time.Now()
		for range 10_000 {
			leave, err := a.enter(t.Context(), a.opening)
			if err != nil {
				t.Fatal(err)
			}
			leave()
		}
		if time.Since(began) != 0 {
			t.Errorf("streams without cost waited %v", time.Since(began))
		}
	})
}

func TestAPlaceIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, 0, push.SystemClock{})
		for i := range 5 { // none of them leaves
			began := time.Now()
			if _, err := a.enter(t.Context(), a.opening); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(began); i > 0 && waited != openingLimit {
				t.Errorf("stream %d waited %v for one that does not leave, want %v", i, waited, openingLimit)
			}
		}
		time.Sleep(openingLimit)
		synctest.Wait()
		if !a.opening.TryAcquire(1) || a.opening.TryAcquire(1) {
			t.Error("there should be one place again, and no more")
		}
	})
}

func TestAdmissionHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, 0, push.SystemClock{})
		crowd := func() {
			for range 200 {
				go func() { _, _ = a.enter(t.Context(), a.opening) }() // each keeps its place to the limit
			}
			synctest.Wait()
		}
		crowd()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.enter(ctx, a.opening); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("the client's own end gives %v", err)
		}
		crowd()
		began := time.Now()
		if _, err := a.enter(t.Context(), a.opening); status.Code(err) != codes.ResourceExhausted || time.Since(began) != maxWait {
			t.Errorf("after %v the error is %v, want ResourceExhausted after %v", time.Since(began), err, maxWait)
		}
		time.Sleep(200 * openingLimit)
	})
}

func TestPlacesGoWithTheMachine(t *testing.T) {
	a := newAdmission(0, 0, push.SystemClock{})
	n := openingsPerCPU * runtime.GOMAXPROCS(0)
	if !a.opening.TryAcquire(int64(n)) || a.opening.TryAcquire(1) {
		t.Errorf("want %d places", n)
	}
}
