package stream

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// TestModelOnDemand is TestModel with a client that fetches clusters on demand (ADR 52). It also
// checks that a cluster that the client has named is never removed from it. When idle, the client
// has exactly the clusters that it has named, which may be empty, and the pinned clusters.
func TestModelOnDemand(t *testing.T) {
	for steps := 0; steps < *modelSteps/3 && !t.Failed(); {
		rapid.Check(t, func(rt *rapid.T) { steps += newModel(rt, Delta, true).run() }) // a hundred runs
	}
}

// absentCluster is the body of the empty cluster that replaces a cluster that does not exist.
const absentCluster = "absent"

// modelFetching is the server's knowledge of the clusters that the client fetches on demand on a
// stream.
type modelFetching struct {
	named  map[string]bool // clusters that the server knows to be named
	pinned map[string]bool // clusters that were pinned since the stream began
}

func (f *modelFetching) startStream(pinned []string) {
	f.named, f.pinned = map[string]bool{}, map[string]bool{}
	f.pin(pinned)
}

func (f *modelFetching) pin(clusters []string) {
	for _, c := range clusters {
		f.pinned[c] = true
	}
}

// recordRequest adds the clusters that a request names to f.named. It does nothing if f is nil.
func (f *modelFetching) recordRequest(r Request) {
	if f == nil || r.TypeURL != pushOrder[cds].URL {
		return
	}
	for _, n := range r.Subscribe {
		f.named[n] = true
	}
}

// checkRemovals returns an error text if a response removes a cluster that the client has named,
// else "". Envoy would never fetch such a cluster again. It does nothing if f is nil.
func (f *modelFetching) checkRemovals(s Send) string {
	if f == nil || s.TypeURL != pushOrder[cds].URL {
		return ""
	}
	for _, n := range s.Removed {
		if f.named[n] {
			return fmt.Sprintf("%s is removed, which the client has fetched", n)
		}
	}
	return ""
}

// callCluster makes the client call a cluster, which may not exist. It fetches the cluster if it
// does not have it.
func (m *model) callCluster() {
	name := pickName(m.T, "c", 7)
	if !m.c.started || m.c.cache[cds][name] != nil || m.c.want[cds][name] {
		return
	}
	m.logStep("call %s", name)
	m.c.want[cds][name] = true
	r := Request{TypeURL: pushOrder[cds].URL, Subscribe: []string{name}}
	switch {
	case !m.c.asked[cds]: // its first request will name the cluster
	case len(m.c.warming) > 0:
		m.c.held = append(m.c.held, r)
	default:
		m.c.toServer = append(m.c.toServer, r)
	}
}

// mustHave reports whether the client must have a cluster of the server: it is static, the client
// has named it and the server knows, or it is pinned.
func (m *model) mustHave(name string) bool {
	return !strings.HasPrefix(name, "c") || m.fetching.named[name] || slices.Contains(m.mesh.pinned(), name)
}

// checkKept fails if an idle client has a cluster that it must not have. It may have existing
// clusters that are named, were pinned on this stream or linger. For a named cluster that does not
// exist it may have an empty one.
func (m *model) checkKept(name string) {
	absent := string(m.c.cache[cds][name].Body) == absentCluster
	switch exists := m.mesh.resources.findResource(cds, name) != nil; {
	case m.lingers(name), !exists && absent && m.c.want[cds][name]:
	case !exists:
		m.fail("client has %s, which does not exist", name)
	case absent && !strings.Contains(m.mesh.bodies[cds][name], "bad"):
		m.fail("client has an empty %s, which exists", name)
	case !m.mustHave(name) && !m.fetching.pinned[name]:
		m.fail("client still has %s, which it has not named", name)
	}
}

// pinned returns the clusters that listeners refer to.
func (h *modelMesh) pinned() []string {
	if h.resources == nil {
		return nil
	}
	return h.resources.pinnedNames()
}

// pinnedBy returns the clusters that a resource uses without fetching them: those of listeners.
func pinnedBy(r *resource.Resource) []string {
	if !strings.HasPrefix(r.Name, "l") {
		return nil
	}
	return slices.Clone(prefixed("c", refs(r)))
}
