package patch

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

func oneFilter(name, patches string) string {
	return "kind: EnvoyFilter\nmetadata: {name: " + name + "}\nspec: {configPatches: [" + patches + "]}\n"
}

const (
	dbBuffer    = "{applyTo: CLUSTER, match: {cluster: {portNumber: 5432}}, patch: {operation: MERGE, value: {per_connection_buffer_limit_bytes: %d}}}"
	detailsHost = `{applyTo: VIRTUAL_HOST, match: {context: SIDECAR_OUTBOUND, routeConfiguration: {vhost: {name: "details.default.svc.cluster.local:9080"}}}, patch: {operation: MERGE, value: {request_headers_to_remove: [x-%d]}}}`
	anyLua      = `{applyTo: HTTP_FILTER, match: {context: SIDECAR_OUTBOUND}, patch: {operation: ADD, value: {name: lua, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua, default_source_code: {inline_string: "-- %d"}}}}}`
)

// TestWorkFollowsChange counts how many resources, and virtual hosts, are patched after each of a
// row of changes.
func TestWorkFollowsChange(t *testing.T) {
	w := newWorld(t, nil, nil, nil, nil)
	var held []any // as proxies hold their resources
	for _, step := range []struct {
		what, apply string
		want        uint64
	}{
		{"nothing to apply", "", 0},
		{"a patch of one cluster", oneFilter("a", fmt.Sprintf(dbBuffer, 1)), 1},
		{"nothing new", "", 0},
		{"another for all HTTP listeners", oneFilter("b", fmt.Sprintf(anyLua, 1)), 1},
		{"the first one edited: the listeners stay", oneFilter("a", fmt.Sprintf(dbBuffer, 2)), 1},
		{"a patch of one virtual host: it and its parents", oneFilter("c", fmt.Sprintf(detailsHost, 1)), 2},
		{
			"a VirtualService for another host: what they are both in",
			`{kind: VirtualService, metadata: {name: reviews}, spec: {hosts: [reviews], http: [{timeout: 3s, route: [{destination: {host: reviews}}]}]}}`,
			1,
		},
		{
			"a service more on the port: what they are all in",
			`{kind: Service, metadata: {name: zoo}, spec: {clusterIP: 10.96.0.9, ports: [{name: http, port: 9080}]}}`,
			1,
		},
		// The generator of routes returns a new route after any change of config; push requests one
		// only if it is affected.
		{
			"an EnvoyFilter of another namespace: what the virtual hosts are in",
			"kind: EnvoyFilter\nmetadata: {name: a, namespace: other}\nspec: {configPatches: [" + fmt.Sprintf(dbBuffer, 3) + "]}",
			1,
		},
		{
			"a cluster with the patch's port, and what the virtual hosts are in",
			`{kind: Service, metadata: {name: db2}, spec: {clusterIP: 10.96.0.10, ports: [{name: tcp, port: 5432}]}}`,
			2,
		},
	} {
		if step.apply != "" {
			w.mesh.Apply(t, step.apply)
		}
		before := w.pass.Computed()
		c, l, r, e := w.patched()
		held = append(held, c, l, r, e, w.view())
		if got := w.pass.Computed() - before; got != step.want {
			t.Errorf("%s: %d patched, want %d", step.what, got, step.want)
		}
	}
	runtime.KeepAlive(held)
}

// TestUntouchedIsTheSame: a resource without a patch is returned itself. A resource that a patch
// examined without a match has the same bytes.
func TestUntouchedIsTheSame(t *testing.T) {
	w := newWorld(t, []byte(oneFilter("a", fmt.Sprintf(dbBuffer, 1)+","+fmt.Sprintf(anyLua, 1)+
		", {applyTo: FILTER_CHAIN, match: {listener: {portNumber: 5432, filterChain: {destinationPort: 1}}}, patch: {operation: REMOVE}}")), nil, nil, nil)
	v, names, g := w.view(), w.names(), w.generated()
	clusters := w.pass.Clusters(v, names.Clusters, g.Clusters)
	listeners := w.pass.Listeners(v, names.Listeners, g.Listeners)
	if len(clusters) != len(g.Clusters) || len(listeners) != len(g.Listeners) {
		t.Fatal("resources are missing")
	}
	differ := map[string]bool{"outbound|5432||db.default.svc.cluster.local": true, "0.0.0.0_9080": true}
	looked := map[string]bool{"10.96.0.3_5432": true, "virtualInbound": true, "virtualOutbound": true}
	for i, r := range slices.Concat(clusters, listeners) {
		was := slices.Concat(g.Clusters, g.Listeners)[i]
		switch {
		case differ[r.Name]:
			if r.Version == was.Version ||
				!slices.Contains(r.From, config.Key{Kind: api.EnvoyFilter, Namespace: "default", Name: "a"}) {
				t.Errorf("%s was not patched, or does not name the EnvoyFilter: %v", r.Name, r.From)
			}
		case looked[r.Name]:
			if r.Version != was.Version || len(r.From) != len(was.From) {
				t.Errorf("%s is different", r.Name)
			}
		case r != was:
			t.Errorf("%s is another pointer", r.Name)
		}
	}
	if got := w.pass.Listeners(v, "", g.Listeners); &got[0] != &g.Listeners[0] {
		t.Error("without patches the list was copied")
	}
	for i := range g.Listeners {
		if g.Listeners[i] == nil {
			t.Error("the input list was modified")
		}
	}
}

// TestSince: patching a difference returns the same as patching everything.
func TestSince(t *testing.T) {
	w := newWorld(
		t,
		[]byte(oneFilter(
			"a",
			fmt.Sprintf(dbBuffer, 1)+", {applyTo: CLUSTER, match: {cluster: {service: details.default.svc.cluster.local}}, patch: {operation: REMOVE}}",
		)),
		nil,
		nil,
		nil,
	)
	v, names := w.view(), w.names()
	var changed []*resource.Resource
	for _, r := range w.generated().Clusters {
		if strings.Contains(r.Name, "details") || strings.Contains(r.Name, "db") {
			changed = append(changed, r)
		}
	}
	d := Since(resource.Diff{Updated: changed, Removed: []string{"zoo"}}, w.pass.Clusters(v, names.Clusters, changed))
	if len(d.Updated) != 1 || d.Updated[0].Name != "outbound|5432||db.default.svc.cluster.local" ||
		len(d.Updated[0].From) != 2 {
		t.Errorf("updated: %v", d.Updated)
	}
	want := []string{
		"outbound|9080|v1|details.default.svc.cluster.local",
		"outbound|9080||details.default.svc.cluster.local", "zoo",
	}
	if !slices.Equal(d.Removed, want) {
		t.Errorf("removed %v, want %v", d.Removed, want)
	}
	if d := Since(resource.Diff{}, w.pass.Listeners(v, names.Listeners, nil)); !d.Empty() {
		t.Errorf("nothing became %v", d)
	}
}

func TestRoutesOf(t *testing.T) {
	type parts struct {
		port              uint32
		portName, gateway string
	}
	for name, want := range map[string]parts{
		"9080":                               {port: 9080},
		"web.default.svc.cluster.local:9080": {},
		"inbound|8080||":                     {port: 8080},
		"InboundPassthroughCluster":          {},
		"http_proxy":                         {},
		"http.8080":                          {port: 8080},
		"https.8443.tls-a.gw.istio-system":   {8443, "tls-a", "istio-system/gw"},
		"99999":                              {},
	} {
		var got parts
		if got.port, got.portName, got.gateway = parseRoutesName(name); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

func TestEdited(t *testing.T) {
	key := config.Key{Kind: api.EnvoyFilter, Namespace: "default", Name: "a"}
	change := snapshot.Delta{Configs: map[config.Key]struct{}{key: {}}}
	for names, want := range map[snapshot.PatchList]bool{
		"":                          false,
		"default/a:1":               true,
		"default/aa:1":              false,
		"default/b:0;default/a:0,2": true,
	} {
		if got := Edited(names, change); got != want {
			t.Errorf("%q: %v", names, got)
		}
	}
	if Edited("", snapshot.Delta{All: true}) || !Edited("default/b:0", snapshot.Delta{All: true}) {
		t.Error("a change of everything")
	}
}

// TestShortcutsChangeNothing compares the outcome of every case with that of a Pass that examines
// every resource of the matching type, whatever names it contains.
func TestShortcutsChangeNothing(t *testing.T) {
	golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
		c.AllowUnread()
		w := worldOf(t, c)
		quick := w.changes()
		w.pass = New()
		v, names := w.view(), w.names()
		for _, n := range []snapshot.PatchList{names.Clusters, names.Listeners, names.Routes} {
			if s := w.pass.set(v, n); s != nil {
				s.values = append(s.values, everyName(s))
			}
		}
		if slow := w.changes(); string(slow) != string(quick) {
			t.Errorf("with shortcuts:\n%s\nwithout:\n%s", quick, slow)
		}
	})
}

// everyName returns all names that patches of a set match.
func everyName(s *set) []byte {
	b := []byte(connectionManager)
	for _, p := range s.patches {
		chain, host := p.listener.GetFilterChain(), p.route.GetVhost()
		for _, n := range []string{
			chain.GetName(), chain.GetSni(), p.networkFilter(), p.httpFilter(), p.listener.GetListenerFilter(),
			host.GetName(), host.GetDomainName(), host.GetRoute().GetName(),
		} {
			b = append(append(b, ' '), n...)
		}
	}
	return b
}

// BenchmarkRoutes: one of a thousand virtual hosts is patched, and another one was edited.
func BenchmarkRoutes(b *testing.B) {
	var text strings.Builder
	text.WriteString("---\n" + oneFilter("a", fmt.Sprintf(detailsHost, 1)))
	for i := range 1000 {
		fmt.Fprintf(&text,
			"---\n{kind: Service, metadata: {name: s%d}, spec: {clusterIP: 10.97.%d.%d, ports: [{name: http, port: 9080}]}}\n",
			i, i/250, i%250)
	}
	w := newWorld(b, []byte(text.String()), nil, nil, nil)
	v, names := w.view(), w.names()
	routes := w.routes.Named(v, "9080")
	w.pass.Routes(v, names.Routes, routes)
	b.ReportAllocs()
	for b.Loop() {
		again := resource.FromBytes(routes.Name, routes.TypeURL, routes.Body, routes.From...)
		w.pass.Routes(v, names.Routes, again)
	}
}

// BenchmarkListeners: a patch for all HTTP filters of the mesh, of which everything is remembered.
func BenchmarkListeners(b *testing.B) {
	var text strings.Builder
	text.WriteString("---\n" + oneFilter("a", fmt.Sprintf(anyLua, 1)))
	for i := range 1000 {
		fmt.Fprintf(&text,
			"---\n{kind: Service, metadata: {name: s%d}, spec: {clusterIP: 10.97.%d.%d, ports: [{name: tcp, port: 5432}]}}\n",
			i, i/250, i%250)
	}
	w := newWorld(b, []byte(text.String()), nil, nil, nil)
	v, names, g := w.view(), w.names(), w.generated()
	held := w.pass.Listeners(v, names.Listeners, g.Listeners)
	b.ReportAllocs()
	for b.Loop() {
		w.pass.Listeners(v, names.Listeners, g.Listeners)
	}
	runtime.KeepAlive(held)
}
