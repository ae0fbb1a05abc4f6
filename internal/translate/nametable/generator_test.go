package nametable_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/nametable"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

func tableOf(t testing.TB, g *nametable.Generator, v *view.View) *resource.Resource {
	t.Helper()
	list := g.All(v)
	if len(list) != 1 || list[0].Name != nametable.Name || list[0].TypeURL != api.NameTableType {
		t.Fatalf("got %+v, want one name table", list)
	}
	return list[0]
}

func names(t testing.TB, r *resource.Resource) mesh.NameTable {
	t.Helper()
	table, err := mesh.DecodeNameTable(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func key(host string) mesh.ServiceKey {
	return mesh.ServiceKey{Namespace: "default", Host: mesh.Hostname(host)}
}

func headless(host string, endpoints ...*mesh.Endpoint) mesh.Batch {
	return mesh.Batch{
		{Service: mesh.Service{
			ServiceKey: key(host), Provider: mesh.Kubernetes, Name: "web", Headless: true, Resolution: mesh.Passthrough,
			Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP}},
		}.Sealed()},
		{
			Shard: mesh.Shard{
				Service:   key(host),
				Key:       mesh.ShardKey{Provider: mesh.Kubernetes},
				Endpoints: endpoints,
			}.Sealed(),
		},
	}
}

// TestNamesOfOtherClusters: an endpoint's own name resolves to the endpoint in the caller's
// cluster, and to one in another cluster only if that does not exist. The service's name resolves
// to all endpoints.
func TestNamesOfOtherClusters(t *testing.T) {
	m := fixture.New(t, nil, nil)
	m.Send(headless("web.default.svc.cluster.local",
		&mesh.Endpoint{Address: "10.1.0.1", ServicePort: "http", Hostname: "web-0", Cluster: "west"},
		&mesh.Endpoint{Address: "10.2.0.1", ServicePort: "http", Hostname: "web-0", Cluster: "east"},
		&mesh.Endpoint{Address: "10.2.0.2", ServicePort: "http", Hostname: "web-1", Cluster: "east"},
		&mesh.Endpoint{
			Address:     "10.2.0.3",
			ServicePort: "http",
			Hostname:    "web-2",
			Cluster:     "east",
			Health:      mesh.Draining,
		},
		&mesh.Endpoint{
			Address:       "10.2.0.4",
			MoreAddresses: []string{"not an address"},
			ServicePort:   "http",
			Cluster:       "east",
		},
	)...)
	g := nametable.NewGenerator()
	for cluster, want := range map[string]map[mesh.Hostname][]string{
		"west": {"": {"10.1.0.1", "10.2.0.1", "10.2.0.2"}, "web-0.": {"10.1.0.1"}, "web-1.": {"10.2.0.2"}},
		"east": {"": {"10.1.0.1", "10.2.0.1", "10.2.0.2"}, "web-0.": {"10.2.0.1"}, "web-1.": {"10.2.0.2"}},
		`""`:   {"": {"10.1.0.1", "10.2.0.1", "10.2.0.2"}, "web-0.": {"10.1.0.1", "10.2.0.1"}, "web-1.": {"10.2.0.2"}},
	} {
		got := map[mesh.Hostname][]string{}
		for host, e := range names(t, tableOf(t, g, m.View(fixture.Proxy(t, []byte("cluster: "+cluster))))) {
			prefix := host[:len(host)-len("web.default.svc.cluster.local")]
			got[prefix] = e.IPs
			if want := string(prefix) + "web"; e.ShortName != want || e.Namespace != "default" {
				t.Errorf("%s: short name %q in %q", host, e.ShortName, e.Namespace)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("caller in %s: -want +got:\n%s", cluster, diff)
		}
	}
}

// TestNamesOfOneCluster: with ENABLE_MULTICLUSTER_HEADLESS=false the service's name resolves only to
// endpoints in the caller's cluster, or in an unknown one. The names of endpoints do not change.
func TestNamesOfOneCluster(t *testing.T) {
	m := fixture.NewWith(t, snapshot.Features{LocalHeadlessNames: true}, nil, nil)
	const host = "web.default.svc.cluster.local"
	m.Send(headless(host,
		&mesh.Endpoint{Address: "10.1.0.1", ServicePort: "http", Cluster: "west"},
		&mesh.Endpoint{Address: "10.2.0.1", ServicePort: "http", Hostname: "web-1", Cluster: "east"},
		&mesh.Endpoint{Address: "10.3.0.1", ServicePort: "http"})...)
	table := names(t, tableOf(t, nametable.NewGenerator(), m.View(fixture.Proxy(t, []byte("cluster: west")))))
	if diff := cmp.Diff([]string{"10.1.0.1", "10.3.0.1"}, table[host].IPs); diff != "" {
		t.Errorf("the service's name (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"10.2.0.1"}, table["web-1."+host].IPs); diff != "" {
		t.Errorf("the name of an endpoint (-want +got):\n%s", diff)
	}
}

// TestClusterSet: the name of a service in all clusters has no shorter names; those mean the mesh's
// own.
func TestClusterSet(t *testing.T) {
	m := bigMesh(t, 0)
	imported := *service(0, "10.98.0.1")
	imported.Host, imported.Hash = "service-00000.default.svc.clusterset.local", 0
	m.Send(mesh.Event{Service: imported.Sealed()}, mesh.Event{Service: service(0, "10.96.0.1")})
	got := names(t, tableOf(t, nametable.NewGenerator(), m.View(fixture.Proxy(t, nil))))
	want := mesh.NameTable{
		"service-00000.default.svc.cluster.local": {
			IPs:       []string{"10.96.0.1"},
			Registry:  mesh.Kubernetes,
			ShortName: "service-00000",
			Namespace: "default",
		},
		"service-00000.default.svc.clusterset.local": {IPs: []string{"10.98.0.1"}, Registry: mesh.Kubernetes},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestOneEditIsOneLine: a change makes the lines of the services that changed, and nothing that
// changes no line makes a new table.
func TestOneEditIsOneLine(t *testing.T) {
	m := bigMesh(t, 50)
	g := nametable.NewGenerator()
	proxy := fixture.Proxy(t, nil)
	before := tableOf(t, g, m.View(proxy))
	if got := g.Computed(); got != 50 {
		t.Fatalf("made lines of %d services, want 50", got)
	}
	step := func(what string, wantLines uint64, wantSame bool, batch ...mesh.Event) {
		t.Helper()
		was := g.Computed()
		if _, d := m.Send(batch...); d.Empty() {
			t.Fatalf("%s is no change: the test is not effective", what)
		}
		after := tableOf(t, g, m.View(proxy))
		if n := g.Computed() - was; n != wantLines {
			t.Errorf("%s makes lines of %d services, want %d", what, n, wantLines)
		}
		if (after == before) != wantSame {
			t.Errorf("%s: the same table %v, want %v", what, after == before, wantSame)
		}
		before = after
	}
	step("another address", 1, false, mesh.Event{Service: service(7, "10.200.0.1")})
	step("a new service", 1, false, mesh.Event{Service: service(50, "10.200.0.2")})
	step("a deleted service", 0, false, mesh.Event{Op: mesh.Delete, Service: service(50, "")})
	step("an endpoint of a service with an address", 0, true, mesh.Event{Shard: mesh.Shard{
		Service: service(7, "").ServiceKey, Endpoints: []*mesh.Endpoint{{Address: "10.1.0.1", ServicePort: "http"}},
	}.Sealed()})
	step("a headless service", 1, false, headless("web.default.svc.cluster.local")...)
	step(
		"an endpoint of it",
		1,
		false,
		headless("web.default.svc.cluster.local", &mesh.Endpoint{Address: "10.1.0.1", ServicePort: "http"})[1],
	)
}

// TestTouched: a change for which Touched is false leaves the table unchanged, and Touched is true
// for every change that alters it.
func TestTouched(t *testing.T) {
	m := bigMesh(t, 3)
	m.Send(headless("web.default.svc.cluster.local")...)
	m.Apply(t, "kind: Sidecar\nmetadata: {name: narrow, namespace: narrow}\nspec: {egress: [{hosts: [narrow/*]}]}")
	g := nametable.NewGenerator()
	const virtualService = `
kind: VirtualService
metadata: {name: to-service, namespace: narrow}
spec: {hosts: [x.example.com], http: [{route: [{destination: {host: service-00001.default.svc.cluster.local}}]}]}`
	for _, c := range []struct {
		what  string
		apply func() (*snapshot.Snapshot, snapshot.Delta)
		wide  bool // whether it touches a View without a Sidecar, and one with
		small bool
		alter bool // whether it alters the table of the former
	}{
		{"a headless service's endpoint", func() (*snapshot.Snapshot, snapshot.Delta) {
			return m.Send(
				headless("web.default.svc.cluster.local", &mesh.Endpoint{Address: "10.1.0.1", ServicePort: "http"})[1],
			)
		}, true, true, true},
		{"another service's endpoint", func() (*snapshot.Snapshot, snapshot.Delta) {
			return m.Send(mesh.Event{Shard: mesh.Shard{
				Service: service(1, "").ServiceKey, Endpoints: []*mesh.Endpoint{
					{Address: "10.1.0.1", ServicePort: "http"},
				},
			}.Sealed()})
		}, false, false, false},
		{"a service", func() (*snapshot.Snapshot, snapshot.Delta) {
			return m.Send(mesh.Event{Service: service(1, "10.200.0.1")})
		}, true, true, true},
		{
			"a VirtualService",
			func() (*snapshot.Snapshot, snapshot.Delta) { return m.Apply(t, virtualService) },
			false, true, false,
		},
		{"a Sidecar", func() (*snapshot.Snapshot, snapshot.Delta) {
			return m.Apply(
				t,
				"kind: Sidecar\nmetadata: {name: narrow, namespace: narrow}\nspec: {egress: [{hosts: [default/*]}]}",
			)
		}, false, true, false},
		{"a Secret", func() (*snapshot.Snapshot, snapshot.Delta) {
			return m.Apply(t, "kind: Secret\nmetadata: {name: s}")
		}, false, false, false},
	} {
		proxies := [2]*mesh.Proxy{fixture.Proxy(t, nil), fixture.Proxy(t, []byte("namespace: narrow"))}
		var before [2]*resource.Resource
		var views [2]*view.View
		for i, p := range proxies {
			views[i] = m.View(p)
			before[i] = tableOf(t, g, views[i])
		}
		s, d := c.apply()
		if d.Empty() {
			t.Fatalf("%s: is no change", c.what)
		}
		for i, want := range []bool{c.wide, c.small} {
			touched := nametable.Touched(views[i], s, d)
			altered := tableOf(t, g, m.View(proxies[i])).Version != before[i].Version
			if touched != want || altered && !touched || i == 0 && altered != c.alter {
				t.Errorf("%s, View %d: touched %v, want %v; altered %v", c.what, i, touched, want, altered)
			}
		}
	}
}

// TestViewsThatSeeTheSameShareOneTable, wherever they are and whatever they serve.
func TestViewsThatSeeTheSameShareOneTable(t *testing.T) {
	m := bigMesh(t, 50)
	g := nametable.NewGenerator()
	first := tableOf(t, g, m.View(fixture.Proxy(t, nil)))
	for _, proxy := range []string{
		"namespace: other", "type: router", "locality: r/z", "network: n",
		"cluster: elsewhere", "labels: {app: a}",
	} {
		if tableOf(t, g, m.View(fixture.Proxy(t, []byte(proxy)))) != first {
			t.Errorf("a proxy with %q has a table of its own", proxy)
		}
	}
	if got := g.Computed(); got != 50 {
		t.Errorf("made lines of %d services, want 50", got)
	}
	m.Apply(
		t,
		"kind: Service\nmetadata: {name: private, annotations: {networking.istio.io/exportTo: .}}\nspec: {clusterIP: 10.0.0.1}",
	)
	own, other := tableOf(
		t,
		g,
		m.View(fixture.Proxy(t, nil)),
	), tableOf(t, g, m.View(fixture.Proxy(t, []byte("namespace: other"))))
	if own == other || other != first {
		t.Errorf("own table new %v, the other's as before %v", own != first, other == first)
	}
	runtime.KeepAlive(first)
}

// TestManyAtOnce: Views that see the same get one table also when they ask at the same time.
func TestManyAtOnce(t *testing.T) {
	m := bigMesh(t, 200)
	g := nametable.NewGenerator()
	var views []*view.View
	for i := range 8 {
		views = append(views, m.View(fixture.Proxy(t, fmt.Appendf(nil, "namespace: ns-%d", i))))
	}
	got := make([]*resource.Resource, len(views))
	var running sync.WaitGroup
	for i, v := range views {
		running.Go(func() { got[i] = g.All(v)[0] })
	}
	running.Wait()
	for i, r := range got {
		if r != got[0] {
			t.Errorf("View %d has a table of its own", i)
		}
	}
	if n := g.Computed(); n != 200 {
		t.Errorf("made lines of %d services, want 200", n)
	}
}

// TestScopeLosesNothing: the table generated for the scope of a Key equals the table for the whole
// Key.
func TestScopeLosesNothing(t *testing.T) {
	m := bigMesh(t, 3)
	m.Send(headless(
		"web.default.svc.cluster.local",
		&mesh.Endpoint{Address: "10.1.0.1", ServicePort: "http", Network: "n", Cluster: "c", Hostname: "web-0"},
	)...)
	m.Apply(t, "kind: Sidecar\nmetadata: {name: default}\nspec: {egress: [{hosts: [./*]}]}")
	s := m.Snapshot()
	for _, proxy := range []string{
		"{network: n, cluster: c, labels: {app: a}, locality: r/z, interception: TPROXY, socketMark: 7}", "{network: other}", "type: router",
	} {
		k := view.KeyFor(s, fixture.Proxy(t, []byte(proxy)))
		whole := tableOf(t, nametable.NewGenerator(), view.Build(s, k))
		scoped := tableOf(t, nametable.NewGenerator(), view.Build(s, nametable.Scope(k)))
		if whole.Version != scoped.Version {
			t.Errorf("%s: another table for the scope alone", proxy)
		}
		if nametable.Scope(nametable.Scope(k)) != nametable.Scope(k) {
			t.Errorf("%s: the scope of a scope is another one", proxy)
		}
	}
}

// TestAnyHistoryEndsInTheSameTable: after many changes a generator returns the same table as a new
// one, in the encoding of the protobuf library.
func TestAnyHistoryEndsInTheSameTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	m := fixture.New(t, nil, nil)
	g := nametable.NewGenerator()
	var kept [2]*resource.Resource
	for i := range 400 {
		n := r.IntN(30)
		switch r.IntN(4) {
		case 0:
			m.Send(mesh.Event{Op: mesh.Delete, Service: service(n, "")})
		case 1:
			m.Send(mesh.Event{Service: service(n, fmt.Sprintf("10.0.0.%d", r.IntN(4)))})
		default:
			var list []*mesh.Endpoint
			for j := range r.IntN(4) {
				e := &mesh.Endpoint{
					Address:     fmt.Sprintf("10.1.%d.%d", n, j),
					ServicePort: "http",
					Cluster:     mesh.ClusterID(fmt.Sprintf("c%d", r.IntN(2))),
				}
				if r.IntN(2) == 0 {
					e.Hostname = fmt.Sprintf("pod-%d", r.IntN(3))
				}
				list = append(list, e)
			}
			m.Send(headless(fmt.Sprintf("service-%05d.pod-1.default.svc.cluster.local", n), list...)...)
		}
		for j, proxy := range []string{"cluster: c0", "namespace: other"} {
			v := m.View(fixture.Proxy(t, []byte(proxy)))
			kept[j] = tableOf(t, g, v)
			fresh := tableOf(t, nametable.NewGenerator(), v)
			if string(fresh.Body) != string(kept[j].Body) || fresh.Version != kept[j].Version {
				t.Fatalf("step %d, %s: after a history %d bytes, built from nothing %d", i, proxy,
					len(kept[j].Body), len(fresh.Body))
			}
			decoded(t, fresh.Body)
			if i%50 == 0 {
				runtime.GC() // collects unreferenced tables
			}
		}
	}
	if len(names(t, kept[0])) < 20 {
		t.Errorf("the table ends with %d names: the test is not effective", len(names(t, kept[0])))
	}
}
