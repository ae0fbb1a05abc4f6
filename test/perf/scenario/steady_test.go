package scenario

import (
	"testing"

	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// TestCanRemove: a service is removed only after all proxies have it.
func TestCanRemove(t *testing.T) {
	s := &steady{bench: &bench{}}
	if s.canRemove() {
		t.Error("no service was added")
	}
	addition := &fleet.Change{Done: make(chan struct{})}
	s.added = []int{7, 8}
	s.pending = []pendingChange{{Change: addition, mark: workload.Mark{Change: workload.AddService, Number: 7}}}
	if s.canRemove() {
		t.Error("service 7 may be removed before all proxies have it")
	}
	close(addition.Done)
	if !s.canRemove() {
		t.Error("service 7 may not be removed although all proxies have it")
	}
}
