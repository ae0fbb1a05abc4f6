package perf_test

import (
	"flag"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/perf/inmemory"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// proxiesFlag is the number of proxies of TestFleetInMemory: `make bench-go` runs it with 10,000.
var proxiesFlag = flag.Int("memory-proxies", 300, "proxies of TestFleetInMemory")

// patience bounds each wait.
const patience = 10 * time.Minute

func newMesh(t testing.TB, p workload.Params) *workload.Mesh {
	t.Helper()
	p.Seed = 1
	m, err := workload.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newPlane(t testing.TB, m *workload.Mesh) *inmemory.Plane {
	t.Helper()
	p, err := inmemory.New(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// connect brings proxies in and waits until they have everything.
func connect(t testing.TB, p *inmemory.Plane, nodes []workload.Node) {
	t.Helper()
	done := p.Expect(api.RouteType, len(nodes))
	if err := p.Connect(nodes); err != nil {
		t.Fatal(err)
	}
	await(t, p, done, "proxies to be in sync")
}

func await(t testing.TB, p *inmemory.Plane, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
	}
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
}

func nodesOf(t testing.TB, m *workload.Mesh, n int) []workload.Node {
	t.Helper()
	nodes, err := m.Nodes(n)
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

// edit makes a change and waits until the given number of proxies has received a response of the
// type.
func edit(t testing.TB, p *inmemory.Plane, m *workload.Mesh, c workload.Change, i int, typeURL string, proxies int) {
	t.Helper()
	e, err := m.MakeChange(c, workload.SharedNamespace, i, i+1)
	if err != nil {
		t.Fatal(err)
	}
	done := p.Expect(typeURL, proxies)
	if err := p.Apply(e); err != nil {
		t.Fatal(err)
	}
	await(t, p, done, string(c)+" at all proxies")
}

// TestFleetInMemory runs a whole fleet in memory: 10,000 proxies of 1,000 services fit in 4 GiB,
// including clients and generated mesh, and an edit of a VirtualService is encoded once for each
// namespace, whatever the number of proxies: the short names of hosts differ between namespaces.
func TestFleetInMemory(t *testing.T) {
	n := *proxiesFlag
	params := workload.Params{Services: 1000, Endpoints: 2, Routes: 4, Namespaces: 20, Scope: workload.Everything}
	m := newMesh(t, params)
	p := newPlane(t, m)
	nodes := nodesOf(t, m, n)
	empty := used()
	began := time.Now()
	connect(t, p, nodes)
	t.Logf("%d proxies in sync after %v", n, time.Since(began))
	full := used()
	t.Logf("memory: %d MiB in use before the first proxy, %d MiB with all: %d KiB each", empty>>20, full>>20, (full-empty)>>10/uint64(n))
	if limit := uint64(4 << 30); full > limit {
		t.Errorf("%d MiB in use: want at most %d", full>>20, limit>>20)
	}

	encoded, computed := p.EncodedCount(api.RouteType), p.Table.Computed[api.RouteType]()
	began = time.Now()
	edit(t, p, m, workload.RouteEdit, 0, api.RouteType, n)
	encoded, computed = p.EncodedCount(api.RouteType)-encoded, p.Table.Computed[api.RouteType]()-computed
	t.Logf("an edit of a VirtualService at all proxies after %v: %d route configurations encoded, %d virtual hosts and configurations translated", time.Since(began), encoded, computed)
	if encoded != params.Namespaces {
		t.Errorf("%d route configurations were encoded for one edit: want %d, one for each namespace", encoded, params.Namespaces)
	}
	if computed > uint64(2*params.Namespaces) {
		t.Errorf("%d virtual hosts and configurations were translated for one edit in %d namespaces", computed, params.Namespaces)
	}
}

// used returns the size of the Go heap and stacks after garbage collection.
func used() uint64 {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// TestCostFollowsClasses: the number of identical proxies does not change the number of
// translations. The number of encodings may differ a little: two proxies that connect at the same
// moment may reach the same state by different steps.
func TestCostFollowsClasses(t *testing.T) {
	const kinds, tolerance = 20, 1.1
	types := []string{api.ClusterType, api.EndpointType, api.ListenerType, api.RouteType}
	translated, encoded := map[string][]uint64{}, map[string][]int{}
	for _, alike := range []int{1, 10} {
		m := newMesh(t, workload.Params{Services: kinds, Endpoints: 5, Routes: 2, Namespaces: 4})
		p := newPlane(t, m)
		var nodes []workload.Node
		for range alike {
			nodes = append(nodes, nodesOf(t, m, kinds)...)
		}
		connect(t, p, nodes)
		edit(t, p, m, workload.RouteEdit, 0, api.RouteType, len(nodes))
		edit(t, p, m, workload.RuleEdit, 1, api.ClusterType, len(nodes))
		edit(t, p, m, workload.EndpointEdit, 2, api.EndpointType, len(nodes))
		for _, u := range types {
			translated[u] = append(translated[u], p.Table.Computed[u]())
			encoded[u] = append(encoded[u], p.EncodedCount(u))
		}
		p.Close()
	}
	for _, u := range types {
		if few, many := translated[u][0], translated[u][1]; few != many || few == 0 {
			t.Errorf("%s: %d translated for 1 proxy of each kind, %d for 10", u, few, many)
		}
		if few, many := encoded[u][0], encoded[u][1]; float64(many) > tolerance*float64(few) || few == 0 {
			t.Errorf("%s: %d encoded for 1 proxy of each kind, %d for 10", u, few, many)
		}
	}
}

// TestClassCount: with every setting that can select single workloads, the number of classes equals
// the number of kinds of workloads.
func TestClassCount(t *testing.T) {
	const services = 20
	for scope, want := range map[workload.Scope]int{workload.Everything: services, workload.Mixed: services, workload.Workload: services} {
		m := newMesh(t, workload.Params{Services: services, Endpoints: 6, Routes: 2, Namespaces: 2, Scope: scope})
		p := newPlane(t, m)
		nodes := nodesOf(t, m, 6*services)
		connect(t, p, nodes)
		// Proxies of a service are in 3 zones.
		if got := p.Pusher.Reports().Stats().Classes; got > 3*want {
			t.Errorf("scope %q: %d proxies of %d services make %d classes, want at most %d", scope, len(nodes), services, got, 3*want)
		}
		p.Close()
	}
}
