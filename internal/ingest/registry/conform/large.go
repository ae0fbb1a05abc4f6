package conform

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// testLarge starts with a service of 10,000 endpoints, removes one, which must emit exactly one
// event, and deletes all. It is skipped for a Fixture without Large.
func (s suite) testLarge(t *testing.T) {
	if s.Large == nil {
		t.Skip("the fixture has no large service")
	}
	const n = 10_000
	w := s.start(t, s.Large(n)...)
	if got := w.state.mostEndpoints(); got != n {
		t.Fatalf("the service has %d endpoints, want %d; problems %v", got, n, w.state.Problems)
	}
	said := w.change(s.Large(n - 1)...)
	if got := w.state.mostEndpoints(); got != n-1 {
		t.Errorf("without one instance, the service has %d endpoints", got)
	}
	if len(said) != 1 {
		t.Errorf("%d events for one instance", len(said))
	}
	w.change(deleteEvents(s.Large(n - 1))...)
	s.requireState(t, w)
}

// mostEndpoints returns the number of endpoints of the service that has most.
func (s *State) mostEndpoints() int {
	counts := map[mesh.ServiceKey]int{}
	most := 0
	for _, shard := range s.Shards {
		counts[shard.Service] += len(shard.Endpoints)
		most = max(most, counts[shard.Service])
	}
	return most
}
