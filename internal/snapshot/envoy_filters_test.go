package snapshot

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func envoyFilter(t testing.TB, namespace, name string, age int, spec string) *config.Config {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	m := new(networking.EnvoyFilter)
	if err := protojson.Unmarshal(body, m); err != nil {
		t.Fatal(err)
	}
	return object(t, api.EnvoyFilter, namespace, name, age, m)
}

const oneCluster = "{configPatches: [{applyTo: CLUSTER, patch: {operation: REMOVE}}]}"

func TestPatchNamesOrder(t *testing.T) {
	b := NewBuilder(Options{})
	b.Apply(
		upsert(envoyFilter(t, "shop", "young", 1, oneCluster)),
		upsert(envoyFilter(t, "shop", "old", 9, oneCluster)),
		upsert(envoyFilter(t, "istio-system", "everywhere", 0, oneCluster)),
		upsert(envoyFilter(t, "istio-system", "late", 9, "{priority: 10, configPatches: [{applyTo: CLUSTER, patch: {operation: REMOVE}}]}")),
		upsert(envoyFilter(t, "shop", "early", 0, "{priority: -10, configPatches: [{applyTo: CLUSTER, patch: {operation: REMOVE}}]}")),
		upsert(envoyFilter(t, "other", "elsewhere", 0, oneCluster)),
	)
	s := b.Current()
	for ns, want := range map[string]PatchList{
		"shop":         "shop/early:0;istio-system/everywhere:0;shop/old:0;shop/young:0;istio-system/late:0",
		"istio-system": "istio-system/everywhere:0;istio-system/late:0",
		"quiet":        "istio-system/everywhere:0;istio-system/late:0",
	} {
		if got := s.PatchNames(ProxyAttributes{Type: mesh.SidecarProxy, Namespace: ns}).Clusters; got != want {
			t.Errorf("in %s: got %s, want %s", ns, got, want)
		}
	}
}

func TestPatchNamesKinds(t *testing.T) {
	b := NewBuilder(Options{})
	b.Apply(upsert(envoyFilter(t, "shop", "a", 0, `
configPatches:
- {applyTo: CLUSTER}
- {applyTo: LISTENER}
- {applyTo: FILTER_CHAIN}
- {applyTo: NETWORK_FILTER}
- {applyTo: HTTP_FILTER}
- {applyTo: LISTENER_FILTER}
- {applyTo: ROUTE_CONFIGURATION}
- {applyTo: VIRTUAL_HOST, match: {context: SIDECAR_INBOUND}}
- {applyTo: HTTP_ROUTE, match: {context: SIDECAR_OUTBOUND}}
- {applyTo: EXTENSION_CONFIG}
- {applyTo: BOOTSTRAP}
- {applyTo: CLUSTER, match: {context: GATEWAY}}
- {applyTo: CLUSTER, match: {context: WAYPOINT}}
- {applyTo: VIRTUAL_HOST, match: {context: GATEWAY}}
- {applyTo: EXTENSION_CONFIG, match: {context: GATEWAY}}
`)))
	s := b.Current()
	for proxy, want := range map[mesh.ProxyType]PatchNames{
		mesh.SidecarProxy: {Clusters: "shop/a:0", Listeners: "shop/a:1,2,3,4,5,6,7", Routes: "shop/a:6,8", Extensions: "shop/a:9,14"},
		mesh.RouterProxy:  {Clusters: "shop/a:0,11", Listeners: "shop/a:1,2,3,4,5", Routes: "shop/a:6,13", Extensions: "shop/a:9,14"},
	} {
		got := s.PatchNames(ProxyAttributes{Type: proxy, Namespace: "shop"})
		if got != want {
			t.Errorf("%s: got %+v, want %+v", proxy, got, want)
		}
	}
}

func TestPatchNamesSelection(t *testing.T) {
	root := "istio-system"
	for _, test := range []struct {
		name, namespace, spec string
		proxy                 ProxyAttributes
		want                  bool
	}{
		{"labels", "shop", "workloadSelector: {labels: {app: web}}", ProxyAttributes{Labels: map[string]string{"app": "web", "v": "1"}}, true},
		{"other labels", "shop", "workloadSelector: {labels: {app: web}}", ProxyAttributes{Labels: map[string]string{"app": "db"}}, false},
		{"an empty selector", "shop", "workloadSelector: {}", ProxyAttributes{}, true},
		{"labels from the root namespace", root, "workloadSelector: {labels: {app: web}}", ProxyAttributes{Labels: map[string]string{"app": "web"}}, true},
		{"a version", "shop", `match: {proxy: {proxyVersion: "^1\\.9.*"}}`, ProxyAttributes{Version: "1.9.3"}, true},
		{"part of a version", "shop", `match: {proxy: {proxyVersion: "9"}}`, ProxyAttributes{Version: "1.9.3"}, true},
		{"another version", "shop", `match: {proxy: {proxyVersion: "^1\\.9.*"}}`, ProxyAttributes{Version: "1.19"}, false},
		{"no version", "shop", `match: {proxy: {proxyVersion: ".*"}}`, ProxyAttributes{}, false},
		{"a bad version", "shop", `match: {proxy: {proxyVersion: "["}}`, ProxyAttributes{Version: "["}, false},
		{"a version too long", "shop", `match: {proxy: {proxyVersion: "` + strings.Repeat("a?", 600) + `"}}`, ProxyAttributes{Version: "1"}, false},
		{"metadata", "shop", "match: {proxy: {metadata: {A: x, B: w}}}", ProxyAttributes{Metadata: map[string]string{"A": "x", "B": "w", "C": "z"}}, true},
		{"metadata that lacks one", "shop", "match: {proxy: {metadata: {A: x, B: \"\"}}}", ProxyAttributes{Metadata: map[string]string{"A": "x"}}, false},
		{"a Gateway", "shop", "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: gw}]",
			ProxyAttributes{Type: mesh.RouterProxy, Labels: map[string]string{gatewayNameLabel: "gw"}}, true},
		{"a Gateway of another namespace", root, "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: gw}]",
			ProxyAttributes{Type: mesh.RouterProxy, Labels: map[string]string{gatewayNameLabel: "gw"}}, false},
		{"a Gateway and a sidecar", "shop", "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: gw}]",
			ProxyAttributes{Labels: map[string]string{gatewayNameLabel: "gw"}}, false},
		{"a Gateway by its namespace", "shop", "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: gw, namespace: shop}]",
			ProxyAttributes{Type: mesh.RouterProxy, Labels: map[string]string{gatewayNameLabel: "gw"}}, true},
		{"a reference to another namespace", "shop", "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: gw, namespace: other}]",
			ProxyAttributes{Type: mesh.RouterProxy, Labels: map[string]string{gatewayNameLabel: "gw"}}, false},
		{"a GatewayClass", root, "targetRefs: [{group: gateway.networking.k8s.io, kind: GatewayClass, name: c}]",
			ProxyAttributes{Type: mesh.RouterProxy, Labels: map[string]string{"gateway.networking.k8s.io/gateway-class-name": "c"}}, false},
		{"a Service", "shop", "targetRefs: [{kind: Service, name: web}]", ProxyAttributes{Type: mesh.RouterProxy}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := "configPatches: [{applyTo: CLUSTER}]\n" + test.spec
			if strings.HasPrefix(test.spec, "match") {
				spec = "configPatches: [{applyTo: CLUSTER, " + test.spec + "}]"
			}
			b := NewBuilder(Options{})
			b.Apply(upsert(envoyFilter(t, test.namespace, "a", 0, spec)))
			test.proxy.Namespace = "shop"
			if test.proxy.Type == "" {
				test.proxy.Type = mesh.SidecarProxy
			}
			if got := b.Current().PatchNames(test.proxy) != (PatchNames{}); got != test.want {
				t.Errorf("selected: %v, want %v", got, test.want)
			}
		})
	}
}

func TestEnvoyPatches(t *testing.T) {
	b := NewBuilder(Options{})
	two := envoyFilter(t, "shop", "two", 1, "{configPatches: [{applyTo: LISTENER}, {applyTo: CLUSTER}, {applyTo: CLUSTER}]}")
	s, _ := b.Apply(upsert(envoyFilter(t, "shop", "one", 2, oneCluster)), upsert(two))
	names := s.PatchNames(ProxyAttributes{Type: mesh.SidecarProxy, Namespace: "shop"})
	list := s.EnvoyPatches(names.Clusters)
	if len(list) != 3 || list[0].Filter.Name != "one" || list[1] != (EnvoyPatch{two, 1}) || list[2] != (EnvoyPatch{two, 2}) {
		t.Errorf("%q: got %v", names.Clusters, list)
	}
	if len(s.EnvoyPatches("")) != 0 || len(s.EnvoyPatches("shop/gone:0;shop/one:0,7,x;nonsense")) != 1 {
		t.Error("found a name that does not exist")
	}
	if !names.Has(two.Key) || names.Has(config.Key{Kind: api.EnvoyFilter, Namespace: "shop", Name: "tw"}) || names.Has(config.Key{Kind: api.Sidecar, Namespace: "shop", Name: "two"}) {
		t.Error("it names other objects than it does")
	}
}

// TestPatchNamesFollowEdits: what changes an EnvoyFilter, or the root namespace, is seen; what does
// not changes nothing.
func TestPatchNamesFollowEdits(t *testing.T) {
	b := NewBuilder(Options{})
	p := ProxyAttributes{Type: mesh.SidecarProxy, Namespace: "shop"}
	if got := b.Current().PatchNames(p); got != (PatchNames{}) {
		t.Errorf("an empty mesh has %+v", got)
	}
	b.Apply(upsert(envoyFilter(t, "shop", "a", 0, oneCluster)), upsert(envoyFilter(t, "roots", "r", 0, oneCluster)))
	row := b.Current().envoyFilters.byNamespace["shop"][0]
	settings := mesh.DefaultMeshConfig()
	settings.RootNamespace = "roots"
	s, _ := b.Apply(mesh.Event{Settings: &mesh.Settings{Mesh: settings}})
	if got := s.PatchNames(p).Clusters; got != "roots/r:0;shop/a:0" {
		t.Errorf("with another root namespace: %s", got)
	}
	if s.envoyFilters.byNamespace["shop"][1] != row {
		t.Error("the row of an object that did not change was made again")
	}
	s, _ = b.Apply(mesh.Event{Op: mesh.Delete, Config: envoyFilter(t, "shop", "a", 0, oneCluster)})
	if got := s.PatchNames(p).Clusters; got != "roots/r:0" {
		t.Errorf("after the deletion: %s", got)
	}
}

func BenchmarkPatchNames(b *testing.B) {
	builder := NewBuilder(Options{})
	for _, ns := range []string{"istio-system", "shop"} {
		for _, name := range []string{"a", "b", "c"} {
			builder.Apply(upsert(envoyFilter(b, ns, name, 0, `configPatches: [{applyTo: CLUSTER, match: {proxy: {proxyVersion: "^1\\.2.*"}}}, {applyTo: HTTP_FILTER}]`)))
		}
	}
	p := ProxyAttributes{Type: mesh.SidecarProxy, Namespace: "shop", Version: "1.29.1"}
	b.ReportAllocs()
	for b.Loop() {
		builder.Current().PatchNames(p)
	}
}
