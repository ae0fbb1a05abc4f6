package listener

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

const shop = `
{kind: Service, metadata: {name: web}, spec: {clusterIP: 10.96.0.1, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}}
---
{kind: Service, metadata: {name: db}, spec: {clusterIP: 10.96.0.2, ports: [{name: tcp, port: 5432}]}}
---
{kind: Service, metadata: {name: pods}, spec: {clusterIP: None, selector: {app: pods}, ports: [{name: tcp, port: 6000}]}}
---
{kind: Pod, metadata: {name: pods-0, labels: {app: pods}}, status: {podIP: 10.0.0.1, phase: Running}}
---
{kind: Pod, metadata: {name: web-0, labels: {app: web}}, status: {podIP: 10.0.1.1, phase: Running}}
---
{kind: Pod, metadata: {name: web-1, labels: {app: web}}, status: {podIP: 10.0.1.2, phase: Running}}
---
{kind: VirtualService, metadata: {name: web}, spec: {hosts: [web], http: [{route: [{destination: {host: web}}]}]}}
---
{kind: DestinationRule, metadata: {name: db}, spec: {host: db, trafficPolicy: {outlierDetection: {interval: 5s}}}}
`

// TestWorkFollowsChange counts how many listeners are made, and how many of the outbound ones are planned, for one proxy after
// each of a row of changes.
func TestWorkFollowsChange(t *testing.T) {
	m := fixture.New(t, []byte(shop), nil)
	g := NewGenerator()
	var held []*resource.Resource
	var v *view.View
	work := func(proxy string) (made, places uint64) {
		made, places = g.Computed(), g.Places()
		next := m.View(fixture.Proxy(t, []byte(proxy)))
		held = append(held, g.All(next)...)
		runtime.KeepAlive(v) // keeps the resources of proxies and their inputs reachable until now
		v = next
		return g.Computed() - made, g.Places() - places
	}
	const web = "{name: web-0, addresses: [10.0.1.1]}"
	for _, step := range []struct {
		what, apply, proxy string
		made, places       uint64
	}{
		{"the first", "", web, 5, 3},
		{"an equal proxy", "", "{name: web-1, addresses: [10.0.1.2]}", 0, 0},
		{"one of another workload: virtualInbound", "", "{name: other, addresses: [10.0.9.9]}", 1, 0},
		{"one of another namespace", "", "{namespace: other, addresses: [10.0.9.8]}", 0, 3},
		{"HTTP routes edited", `{kind: VirtualService, metadata: {name: web}, spec: {hosts: [web], http: [{timeout: 3s, route: [{destination: {host: web}}]}]}}`, web, 0, 0},
		{"another VirtualService for HTTP", `{kind: VirtualService, metadata: {name: more}, spec: {hosts: [db], http: [{route: [{destination: {host: web}}]}]}}`, web, 0, 0},
		{"outlier detection edited", `{kind: DestinationRule, metadata: {name: db}, spec: {host: db, trafficPolicy: {outlierDetection: {interval: 6s}}}}`, web, 0, 0},
		{"an endpoint more", `{kind: Pod, metadata: {name: web-2, labels: {app: web}}, status: {podIP: 10.0.1.3, phase: Running}}`, web, 0, 0},
		{"a Sidecar elsewhere", `{kind: Sidecar, metadata: {name: x, namespace: other}, spec: {egress: [{hosts: ["./*"]}]}}`, web, 0, 0},
		{"an HTTP service more", `{kind: Service, metadata: {name: zoo}, spec: {clusterIP: 10.96.0.9, ports: [{name: http, port: 80}]}}`, web, 0, 1},
		{"an endpoint of a headless service: its listener", `{kind: Pod, metadata: {name: pods-1, labels: {app: pods}}, status: {podIP: 10.0.0.2, phase: Running}}`, web, 1, 2},
		{"an idle timeout", `{kind: DestinationRule, metadata: {name: db}, spec: {host: db, trafficPolicy: {connectionPool: {tcp: {idleTimeout: 6s}}}}}`, web, 1, 1},
		{"a TCP route", `{kind: VirtualService, metadata: {name: tcp}, spec: {hosts: [db], tcp: [{route: [{destination: {host: pods}}]}]}}`, web, 1, 1},
		{"the previous state again is memoized", `{kind: VirtualService, metadata: {name: tcp}, spec: {hosts: [nobody], tcp: [{route: [{destination: {host: pods}}]}]}}`, web, 0, 1},
		{"a TCP route to where HTTP is spoken: its extension", `{kind: VirtualService, metadata: {name: tcp}, spec: {hosts: [db], tcp: [{route: [{destination: {host: web}}]}]}}`, web, 0, 1},
		{"an idle timeout there", `{kind: DestinationRule, metadata: {name: web}, spec: {host: web, trafficPolicy: {connectionPool: {tcp: {idleTimeout: 7s}}}}}`, web, 1, 1},
		{"an own port more: virtualInbound", `{kind: Service, metadata: {name: zoo-b}, spec: {clusterIP: 10.96.0.8, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8081}]}}`, web, 1, 1},
		{"a Sidecar: what leads to the unknown", `{kind: Sidecar, metadata: {name: own}, spec: {outboundTrafficPolicy: {mode: REGISTRY_ONLY}}}`, web, 2, 4},
		{"its policy: as it was", `{kind: Sidecar, metadata: {name: own}, spec: {outboundTrafficPolicy: {mode: ALLOW_ANY}}}`, web, 0, 4},
		{"a listener of its own", `{kind: Sidecar, metadata: {name: own}, spec: {egress: [{port: {number: 80, protocol: HTTP, name: a}, bind: 127.0.0.1, captureMode: NONE, hosts: ["*/*"]}, {hosts: ["*/*"]}]}}`, web, 1, 5},
		{"at another address", `{kind: Sidecar, metadata: {name: own}, spec: {egress: [{port: {number: 80, protocol: HTTP, name: a}, bind: 127.0.0.2, captureMode: NONE, hosts: ["*/*"]}, {hosts: ["*/*"]}]}}`, web, 1, 5},
	} {
		if step.apply != "" {
			m.Apply(t, step.apply)
		}
		if made, places := work(step.proxy); made != step.made || places != step.places {
			t.Errorf("%s: %d listeners made and %d planned, want %d and %d", step.what, made, places, step.made, step.places)
		}
	}
	runtime.KeepAlive(held)
	runtime.KeepAlive(v)
}

// TestReuseChangesNothing edits a mesh repeatedly and compares the listeners of one Generator with
// those of new ones. A listener name must also never get other addresses, because during an update
// two listeners would have the same.
func TestReuseChangesNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := fixture.New(t, []byte(randomMesh(r)), nil)
		proxy := fixture.Proxy(t, []byte(fmt.Sprintf("{labels: {app: %s}, interception: %s}", oneOf(r, "app", "a", "b"), oneOf(r, "interception", "REDIRECT", "NONE"))))
		g := NewGenerator()
		var held []any // as proxies hold their resources
		var edits []string
		addresses := map[string]string{}
		for range rapid.IntRange(1, 6).Draw(r, "edits") {
			v := m.View(proxy)
			fresh := NewGenerator()
			reused := g.All(v)
			if diff := cmp.Diff(fresh.Conflicts(v), g.Conflicts(v)); diff != "" {
				r.Fatalf("conflicts differ (-fresh +reused):\n%s", diff)
			}
			sameExtensions(r, fresh.outbound(v).extensions, g.outbound(v).extensions)
			held = append(held, v, reused)
			if diff := cmp.Diff(fresh.Plan(v), g.Plan(v)); diff != "" {
				r.Fatalf("plans differ (-fresh +reused):\n%s\nafter:\n%s", diff, strings.Join(edits, "\n"))
			}
			if version(t, fresh.All(v)) != version(t, reused) {
				r.Fatalf("bytes differ, after:\n%s", strings.Join(edits, "\n"))
			}
			if diff := cmp.Diff(fresh.Problems(v), g.Problems(v)); diff != "" {
				r.Fatalf("problems differ (-fresh +reused):\n%s", diff)
			}
			for _, x := range reused {
				l := golden.Decode(t, x).(*listenerv3.Listener)
				at := fmt.Sprint(addressesOf(l))
				if was := addresses[l.GetName()]; was != "" && was != at {
					r.Fatalf("%s was at %s, is at %s", l.GetName(), was, at)
				}
				addresses[l.GetName()] = at
			}
			edits = append(edits, edit(r, t, m))
		}
		runtime.KeepAlive(held)
	})
}

// TestDestinationOutsideTheSidecar checks that the TCP proxy of a route follows the only port of its
// destination also where the Sidecar does not import the destination's service.
func TestDestinationOutsideTheSidecar(t *testing.T) {
	m := fixture.New(t, []byte(shop+`
---
{kind: Sidecar, metadata: {name: own}, spec: {egress: [{hosts: ["./db.default.svc.cluster.local"]}]}}
---
{kind: VirtualService, metadata: {name: tcp}, spec: {hosts: [db], tcp: [{route: [{destination: {host: pods}}]}]}}
`), nil)
	g := NewGenerator()
	proxy := fixture.Proxy(t, []byte("{name: web-0, addresses: [10.0.1.1]}"))
	expect := func(cluster string) {
		t.Helper()
		extensions := g.outbound(m.View(proxy)).extensions
		if len(extensions) != 1 {
			t.Fatalf("%d extensions, want that of the route", len(extensions))
		}
		for name, x := range extensions {
			if got := x.Refers(); !slices.Contains(got, cluster) {
				t.Errorf("extension %s references %q, want %s", name, got, cluster)
			}
		}
	}
	expect("outbound|6000||pods.default.svc.cluster.local")
	m.Apply(t, `{kind: Service, metadata: {name: pods}, spec: {clusterIP: None, ports: [{name: tcp, port: 6001}]}}`)
	expect("outbound|6001||pods.default.svc.cluster.local")
}

func sameExtensions(r *rapid.T, a, b map[string]*resource.Resource) {
	if len(a) != len(b) {
		r.Fatalf("%d extensions of one that remembers nothing, %d of the other", len(a), len(b))
	}
	for name, x := range a {
		if b[name] == nil || b[name].Version != x.Version {
			r.Fatalf("extension %s differs", name)
		}
	}
}

// edit changes one thing of a mesh.
func edit(r *rapid.T, t *testing.T, m *fixture.Mesh) string {
	var text string
	switch oneOf(r, "edit", "mesh", "service", "route", "sidecar", "rule", "settings") {
	case "mesh":
		text = randomMesh(r)
	case "service":
		text = randomService(r, rapid.IntRange(0, 4).Draw(r, "which"))
	case "route":
		text = randomVirtualService(r, rapid.IntRange(0, 2).Draw(r, "which"))
	case "sidecar":
		text = randomSidecar(r)
	case "rule":
		text = fmt.Sprintf("{kind: DestinationRule, metadata: {name: some}, spec: {host: %s, trafficPolicy: {connectionPool: {tcp: {idleTimeout: %ds}}}}}",
			oneOf(r, "host", names()...), rapid.IntRange(0, 3).Draw(r, "idle"))
	default:
		changed := mesh.DefaultMeshConfig()
		changed.AccessLogFile = oneOf(r, "log", "/dev/stdout", "/dev/stderr", "")
		m.Send(mesh.Event{Settings: &mesh.Settings{Mesh: changed}})
		return "accessLogFile: " + changed.AccessLogFile
	}
	m.Apply(t, text)
	return text
}

// version is the version of the set of resources: equal for equal bytes.
func version(t testing.TB, list []*resource.Resource) string {
	t.Helper()
	set, err := resource.NewSet(list)
	if err != nil {
		t.Error(err)
	}
	return set.Version()
}

// TestBytesAreStable generates the listeners of a mesh repeatedly, from objects that arrive in a
// different order each time, and expects the same bytes.
func TestBytesAreStable(t *testing.T) {
	batch, err := fixture.Decode([]byte(shop))
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	want := ""
	for i := range 100 {
		events := fixture.Events(mesh.Upsert, batch...)
		random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		m := fixture.New(t, nil, nil)
		for _, e := range events {
			m.Send(e)
		}
		v := m.View(fixture.Proxy(t, []byte("{name: web-0, addresses: [10.0.1.1]}")))
		got := version(t, NewGenerator().All(v))
		if want == "" {
			want = got
		}
		if got != want {
			t.Fatalf("the %d. time the bytes are others", i+1)
		}
	}
}

// TestManyAsk generates the listeners of one View concurrently.
func TestManyAsk(t *testing.T) {
	m := fixture.New(t, []byte(shop), nil)
	g := NewGenerator()
	s := m.Snapshot()
	lists := make([][]*resource.Resource, 20)
	done := make(chan struct{})
	for i := range lists {
		go func() {
			lists[i] = g.All(viewFor(s, i))
			done <- struct{}{}
		}()
	}
	for range lists {
		<-done
	}
	if g.Planned() != 1 {
		t.Errorf("planned %d times", g.Planned())
	}
	for i, list := range lists {
		for j := range list {
			if list[j] != lists[0][j] {
				t.Fatalf("list %d has another %s", i, list[j].Name)
			}
		}
	}
}

func viewFor(s *snapshot.Snapshot, i int) *view.View {
	p := &mesh.Proxy{Type: mesh.SidecarProxy, Name: fmt.Sprint("p-", i), Namespace: "default", DNSDomain: "default.svc.cluster.local"}
	return view.Build(s, view.KeyFor(s, p))
}
