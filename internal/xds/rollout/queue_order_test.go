package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
)

// newQueue returns a harness with a client "p0", "p1", … in each of the namespaces. Each is of a
// class of its own and up to date. Generators run on request only.
func newQueue(t *testing.T, namespaces ...string) *harness {
	listeners := inbound()
	listeners.Touched = func(v *view.View, _ *snapshot.Snapshot, d snapshot.Delta) bool { return v.IsInboundAffectedBy(d) }
	h := newHarness(t, 3, rollout.Options{
		MaxJobs: 100, Generators: append(new(pushtest.Generators).Table(), listeners),
	})
	for i, namespace := range namespaces {
		c := h.connect(fmt.Sprintf("p%d", i), namespace, false)
		h.subscribe(c, api.RouteType, "80")
		h.acknowledge(c)
	}
	h.manual = true
	return h
}

// runNext runs the generator at the head of the queue, and returns the number of clients that have
// been offered resources that they have not acknowledged.
func (h *harness) runNext() (offered int) {
	job := h.jobs[0]
	h.jobs = h.jobs[1:]
	h.step(h.finish(job))
	for _, c := range h.clients {
		if c.offered != c.acked {
			offered++
		}
	}
	return offered
}

// TestClassesAreCompletedInTurn checks that after a change all generators of a class run before the
// generators of the next class, and that its clients are then offered the change.
func TestClassesAreCompletedInTurn(t *testing.T) {
	t.Parallel()
	const classes = 6
	h := newQueue(t, "default", "a", "b", "c", "d", "e")
	h.mesh.EditRoutes()
	h.wait(5 * time.Millisecond)
	if len(h.jobs) == 0 || len(h.jobs)%classes != 0 {
		t.Fatalf("%d generators are queued for %d classes, want as many for each", len(h.jobs), classes)
	}
	perClass := len(h.jobs) / classes
	for ran := 1; len(h.jobs) > 0; ran++ {
		if got, want := h.runNext(), ran/perClass; got != want {
			t.Fatalf("after %d of %d generators %d clients are offered the change, want %d",
				ran, perClass*classes, got, want)
		}
	}
}

// TestServersAreFirstInQueue checks that the generators for a proxy that has become a server run
// before all others: the server-first barrier holds back the others.
func TestServersAreFirstInQueue(t *testing.T) {
	t.Parallel()
	for range 10 { // Producers are in random order, so one attempt may succeed by chance.
		h := newQueue(t, "default", "a", "b", "c")
		h.mesh.SetEndpoints("s1", pushtest.Proxy(0, "default").Addresses[0].String())
		h.wait(5 * time.Millisecond)
		queued, ran := len(h.jobs), 0
		for c := h.client("p0"); c.offered == c.acked && len(h.jobs) > 0; ran++ {
			h.runNext()
		}
		if queued != 5 || ran != 2 {
			t.Fatalf("after %d of %d generators the server is offered its configuration, want 2 of 5: "+
				"its endpoints and inbound listener, then the others' endpoints", ran, queued)
		}
	}
}
