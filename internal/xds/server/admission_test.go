package server

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

func TestFixedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(0, 10, clock.System{})
		began := time.Now()
		var at []time.Duration
		for range 13 {
			if err := a.waitForRate(t.Context()); err != nil {
				t.Fatal(err)
			}
			at = append(at, time.Since(began))
		}
		if at[9] != 0 || at[10] != 100*time.Millisecond || at[12] != 300*time.Millisecond {
			t.Errorf("streams were admitted at %v, want ten at once and then one each 100ms", at)
		}
		time.Sleep(time.Minute)
		if began = time.Now(); a.waitForRate(t.Context()) != nil || time.Since(began) != 0 {
			t.Error("a stream had to wait after a minute without streams")
		}
	})
}

func TestFixedRateRefusesExcessStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(0, 1, clock.System{})
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 100)
		for range 100 {
			go func() { errs <- a.waitForRate(ctx) }()
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
			t.Errorf("%d of the waiting streams were admitted, want 20", n)
		}
		if err := <-errs; status.Code(err) != codes.Canceled {
			t.Errorf("error = %v, want Canceled", err)
		}
	})
}

// TestAdmissionIsByCost admits streams of different durations: the number of streams in progress
// never exceeds the number of slots, streams are admitted in order of arrival, and ten thousand
// streams without cost are admitted without delay.
func TestAdmissionIsByCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(2, 0, clock.System{})
		var order []int
		for i, cost := range []time.Duration{100 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
			go func() {
				leave, err := a.acquirePlace(t.Context(), a.opening, openingLimit)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i) // no lock: all goroutines are in one bubble, and no two wake at the same time
				time.Sleep(cost)
				leave()
				leave() // a second call has no effect
			}()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !slices.IsSorted(order) || len(order) != 5 {
			t.Errorf("admission order = %v", order)
		}
		began := time.Now()
		for range 10_000 {
			leave, err := a.acquirePlace(t.Context(), a.opening, openingLimit)
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
		a := newAdmission(1, 0, clock.System{})
		for i := range 5 { // none of them releases its slot
			began := time.Now()
			if _, err := a.acquirePlace(t.Context(), a.opening, openingLimit); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(began); i > 0 && waited != openingLimit {
				t.Errorf("stream %d waited %v for a slot that is not released, want %v", i, waited, openingLimit)
			}
		}
		time.Sleep(openingLimit)
		synctest.Wait()
		if !a.opening.tryAcquire() || a.opening.tryAcquire() {
			t.Error("want exactly one free slot again")
		}
	})
}

// TestWaitingStreamsAreRefusedInTime opens two hundred streams that each occupy their slot until
// openingLimit. The newest stream waits for one of them only. The oldest are refused when they have
// waited for maxWait.
func TestWaitingStreamsAreRefusedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, 0, clock.System{})
		began := time.Now()
		var mu sync.Mutex
		var refused []time.Duration
		for range 200 {
			go func() {
				_, err := a.acquirePlace(t.Context(), a.opening, openingLimit)
				if status.Code(err) == codes.ResourceExhausted {
					mu.Lock()
					refused = append(refused, time.Since(began))
					mu.Unlock()
				}
			}()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), openingLimit/2)
		defer cancel()
		if _, err := a.acquirePlace(ctx, a.opening, openingLimit); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("error after the client has ended its stream = %v", err)
		}
		time.Sleep(2 * openingLimit)
		came := time.Now()
		if _, err := a.acquirePlace(t.Context(), a.opening, openingLimit); err != nil || time.Since(came) > openingLimit {
			t.Errorf("the newest waited %v: %v, want at most %v", time.Since(came), err, openingLimit)
		}
		time.Sleep(2 * maxWait)
		synctest.Wait()
		if n := int(maxWait / openingLimit); len(refused) < 200-n-2 || len(refused) > 200-n+2 {
			t.Errorf("%d of 200 were refused, want about %d", len(refused), 200-n)
		}
		for _, after := range refused {
			if after != maxWait {
				t.Fatalf("one was refused after %v, want %v", after, maxWait)
			}
		}
	})
}

// TestGateIsBounded: if there are more waiters than the limit, the oldest are refused at once.
func TestGateIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1, 2)
		if err := g.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		errs := make([]error, 4)
		for i := range errs {
			go func() {
				if errs[i] = g.acquire(t.Context()); errs[i] == nil {
					g.release()
				}
			}()
			synctest.Wait()
		}
		if errs[0] == nil || errs[1] == nil {
			t.Errorf("the oldest were not refused: %v", errs)
		}
		g.release()
		synctest.Wait()
		if errs[2] != nil || errs[3] != nil || !g.tryAcquire() || g.tryAcquire() {
			t.Errorf("the newest were not admitted, or a slot is lost: %v", errs)
		}
	})
}

func TestOpeningSlotsPerCPU(t *testing.T) {
	a := newAdmission(0, 0, clock.System{})
	n := openingsPerCPU * runtime.GOMAXPROCS(0)
	for range n {
		if !a.opening.tryAcquire() {
			t.Fatalf("want %d free slots", n)
		}
	}
	if a.opening.tryAcquire() {
		t.Errorf("want %d free slots", n)
	}
}

// TestSilentStreamsDoNotUseTheRate: with a fixed rate of two streams a second the third proxy
// waits. Streams without a request that were opened before do not count.
func TestSilentStreamsDoNotUseTheRate(t *testing.T) {
	h := serve(t, 1, Options{MaxRequestsPerSecond: 2})
	for range 50 {
		c := dialRaw(t, h.addr, 64<<10)
		defer c.Close()
	}
	began := time.Now()
	var at []time.Duration
	for i := range 3 {
		h.connect(stream.Delta, testNode(i)).start()
		at = append(at, time.Since(began))
	}
	if at[2] < 400*time.Millisecond || at[2] > 10*time.Second {
		t.Errorf("proxies were served after %v, want the third half a second after the first", at)
	}
}

// TestRefusedStreamsAreCounted: a proxy that would have to wait for longer than maxWait is refused
// at once, and counted as refused.
func TestRefusedStreamsAreCounted(t *testing.T) {
	m := new(counted)
	h := serve(t, 1, Options{MaxRequestsPerSecond: .01, Metrics: m})
	h.connect(stream.Delta, testNode(1)).start()
	if n := m.refused.Load(); n != 0 {
		t.Errorf("%d streams are counted as refused before any was refused", n)
	}
	second := h.connect(stream.Delta, testNode(2))
	second.ask(api.ClusterType, nil, nil)
	if err := second.wantEnd(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the stream ended with %v, want ResourceExhausted", err)
	}
	h.wait("the refused stream is counted", func() bool { return m.refused.Load() == 1 })
}
