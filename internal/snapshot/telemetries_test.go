package snapshot

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func telemetryObject(t testing.TB, namespace, name string, age int, spec string) *config.Config {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	m := new(telemetry.Telemetry)
	if err := protojson.Unmarshal(body, m); err != nil {
		t.Fatal(err)
	}
	return object(t, api.Telemetry, namespace, name, age, m)
}

// names returns the names of the objects for a proxy: of the mesh, the namespace and the workload.
func names(k TelemetryKeys) [3]string {
	return [3]string{k.Mesh.Name, k.Namespace.Name, k.Workload}
}

func TestTelemetryKeys(t *testing.T) {
	b := NewBuilder(Options{})
	b.Apply(
		upsert(telemetryObject(t, "istio-system", "mesh", 9, "{}")),
		upsert(telemetryObject(t, "istio-system", "a-later", 1, "{}")),
		upsert(telemetryObject(t, "istio-system", "class", 9, "{targetRefs: [{group: gateway.networking.k8s.io, kind: GatewayClass, name: istio}]}")),
		upsert(telemetryObject(t, "istio-system", "root-only", 9, "{selector: {matchLabels: {app: a}}}")),
		upsert(telemetryObject(t, "shop", "shop", 9, "{selector: {}}")),
		upsert(telemetryObject(t, "shop", "a", 9, "{selector: {matchLabels: {app: a}}}")),
		upsert(telemetryObject(t, "shop", "a-later", 1, "{selector: {matchLabels: {app: a}}}")),
		upsert(telemetryObject(t, "shop", "front", 9, "{targetRef: {group: gateway.networking.k8s.io, kind: Gateway, name: front}}")),
	)
	s := b.Current()
	sidecar := func(namespace, app string) ProxyAttributes {
		return ProxyAttributes{Type: mesh.SidecarProxy, Namespace: namespace, Labels: map[string]string{"app": app}}
	}
	router := func(namespace, label, value string) ProxyAttributes {
		return ProxyAttributes{Type: mesh.RouterProxy, Namespace: namespace, Labels: map[string]string{"gateway.networking.k8s.io/" + label: value}}
	}
	tests := []struct {
		name  string
		proxy ProxyAttributes
		want  [3]string
	}{
		{"elsewhere", sidecar("other", "a"), [3]string{"mesh", "", ""}},
		{"in the namespace", sidecar("shop", "b"), [3]string{"mesh", "shop", ""}},
		{"selected", sidecar("shop", "a"), [3]string{"mesh", "shop", "shop/a;shop/a-later;"}},
		{"in the root namespace", sidecar("istio-system", "a"), [3]string{"mesh", "", "istio-system/root-only;"}},
		{"gateway", router("shop", "gateway-name", "front"), [3]string{"mesh", "shop", "shop/front;"}},
		{"other gateway", router("shop", "gateway-name", "back"), [3]string{"mesh", "shop", ""}},
		{"gateway of the class", router("other", "gateway-class-name", "istio"), [3]string{"mesh", "", ""}},
	}
	for _, test := range tests {
		if got := names(s.TelemetryKeys(test.proxy)); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
	spare := map[string]string{}
	for _, ns := range []string{"istio-system", "shop", "other"} {
		for _, x := range s.ShadowedTelemetries(ns) {
			spare[x.Key.Namespace+"/"+x.Key.Name] = x.Older.Name
		}
	}
	if len(spare) != 1 || spare["istio-system/a-later"] != "mesh" {
		t.Errorf("spare are %v", spare)
	}
}

func TestTelemetryKeysFollowChanges(t *testing.T) {
	b := NewBuilder(Options{})
	p := ProxyAttributes{Type: mesh.SidecarProxy, Namespace: "shop", Labels: map[string]string{"app": "a"}}
	step := func(want [3]string, events ...mesh.Event) {
		t.Helper()
		b.Apply(events...)
		if got := names(b.Current().TelemetryKeys(p)); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	own, other := telemetryObject(t, "shop", "own", 0, "{}"), telemetryObject(t, "other", "other", 0, "{}")
	step([3]string{})
	step([3]string{"", "own", ""}, upsert(own), upsert(other))
	step([3]string{"", "", "shop/own;"}, upsert(telemetryObject(t, "shop", "own", 0, "{selector: {matchLabels: {app: a}}}")))
	step([3]string{"", "", ""}, upsert(telemetryObject(t, "shop", "own", 0, "{selector: {matchLabels: {app: b}}}")))
	step([3]string{"", "own", ""}, upsert(own))
	step([3]string{}, mesh.Event{Op: mesh.Delete, Config: own})
	step([3]string{"other", "", ""}, mesh.Event{Settings: settingsWithRoot("other")})
	step([3]string{}, mesh.Event{Op: mesh.Delete, Config: other})
}

func settingsWithRoot(namespace string) *mesh.Settings {
	m := mesh.DefaultMeshConfig()
	m.RootNamespace = namespace
	return &mesh.Settings{Mesh: m}
}
