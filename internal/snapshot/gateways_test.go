package snapshot

import (
	"strings"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func gatewayEvent(t *testing.T, namespace, name string, age int64, selector map[string]string) mesh.Event {
	t.Helper()
	c, err := config.New(config.Meta{Key: config.Key{Kind: api.Gateway, Namespace: namespace, Name: name}, Created: time.Unix(age, 0)}, &networking.Gateway{Selector: selector})
	if err != nil {
		t.Fatal(err)
	}
	return mesh.Event{Config: c}
}

func TestGatewayNames(t *testing.T) {
	events := []mesh.Event{
		gatewayEvent(t, "b", "young", 3, map[string]string{"app": "gateway"}),
		gatewayEvent(t, "a", "old", 1, map[string]string{"app": "gateway", "tier": "edge"}),
		gatewayEvent(t, "a", "all", 2, nil),
		gatewayEvent(t, "a", "other", 0, map[string]string{"app": "other"}),
	}
	everywhere, _ := NewBuilder(Options{}).Apply(events...)
	scoped, _ := NewBuilder(Options{Features: Features{ScopeGateways: true}}).Apply(events...)
	edge, plain := map[string]string{"app": "gateway", "tier": "edge"}, map[string]string{"app": "gateway"}
	tests := []struct {
		name      string
		s         *Snapshot
		namespace string
		labels    map[string]string
		want      GatewayNames
	}{
		{"the oldest first", everywhere, "a", edge, "a/old;a/all;b/young;"},
		{"of all namespaces", everywhere, "c", plain, "a/all;b/young;"},
		{"no labels", everywhere, "c", nil, "a/all;"},
		{"scoped to the namespace", scoped, "a", edge, "a/old;a/all;"},
		{"scoped to another one", scoped, "b", edge, "b/young;"},
	}
	for _, test := range tests {
		for range 2 { // the second time it is known
			if got := test.s.GatewayNames(test.namespace, test.labels); got != test.want {
				t.Errorf("%s: %q, want %q", test.name, got, test.want)
			}
		}
	}
	names := GatewayNames("a/old;a/all;")
	for key, want := range map[config.Key]bool{
		{Kind: api.Gateway, Namespace: "a", Name: "old"}: true, {Kind: api.Gateway, Namespace: "a", Name: "all"}: true,
		{Kind: api.Gateway, Namespace: "a", Name: "al"}: false, {Kind: api.Gateway, Namespace: "", Name: "old"}: false,
		{Kind: api.Sidecar, Namespace: "a", Name: "old"}: false,
	} {
		if names.Has(key) != want {
			t.Errorf("%s among the names: %t, want %t", key, !want, want)
		}
	}
}

// TestForeignGateways: proxies that are deployed for a Gateway of the Gateway API serve Istio's
// Gateways of its namespace only.
func TestForeignGateways(t *testing.T) {
	selector := map[string]string{"gateway.networking.k8s.io/gateway-name": "gw"}
	events := []mesh.Event{
		gatewayEvent(t, "evil", "selects", 1, selector),
		gatewayEvent(t, "evil", "all", 2, nil),
		gatewayEvent(t, "infra", "own", 3, selector),
	}
	listener := func(managed bool) mesh.Event {
		x := &config.Extension{Gateway: &config.GatewayExtension{OwnNamespace: true, Managed: managed}}
		c, err := config.New(config.Meta{Key: config.Key{Kind: api.Gateway, Namespace: "infra", Name: "gw"}, Created: time.Unix(4, 0), Extension: x}, &networking.Gateway{Selector: selector})
		if err != nil {
			t.Fatal(err)
		}
		return mesh.Event{Config: c}
	}
	for _, test := range []struct {
		name            string
		managed, merge  bool
		served, foreign string
	}{
		{"deployed", true, false, "infra/own infra/gw", "evil/selects evil/all"},
		{"deployed, but merged", true, true, "evil/selects evil/all infra/own infra/gw", ""},
		{"not deployed", false, false, "evil/selects evil/all infra/own infra/gw", ""},
	} {
		s, _ := NewBuilder(Options{Features: Features{MergeForeignGateways: test.merge}}).Apply(append(events, listener(test.managed))...)
		text := func(list []*config.Config) string {
			var names []string
			for _, c := range list {
				names = append(names, c.Namespace+"/"+c.Name)
			}
			return strings.Join(names, " ")
		}
		names := s.GatewayNames("infra", selector)
		if served, foreign := text(s.Gateways(names)), text(s.ForeignGateways(names)); served != test.served || foreign != test.foreign {
			t.Errorf("%s: %q, without %q; want %q without %q", test.name, served, foreign, test.served, test.foreign)
		}
		if names := s.GatewayNames("elsewhere", nil); text(s.Gateways(names)) != "evil/all" {
			t.Errorf("%s: other proxies have %q", test.name, names)
		}
	}
}

// TestGatewaysKeepDerivedData: values derived from Gateways are recomputed only when a
// Gateway changes.
func TestGatewaysKeepDerivedData(t *testing.T) {
	b := NewBuilder(Options{})
	s, _ := b.Apply(gatewayEvent(t, "a", "one", 1, nil))
	first := s.GatewaysDerived()
	service := mesh.Service{ServiceKey: mesh.ServiceKey{Namespace: "a", Host: "x"}}
	if s, _ = b.Apply(mesh.Event{Service: service.Sealed()}); s.GatewaysDerived() != first {
		t.Error("a change of a Service recomputed values derived from Gateways")
	}
	if s, _ = b.Apply(gatewayEvent(t, "a", "two", 2, nil)); s.GatewaysDerived() == first {
		t.Error("another Gateway did not")
	}
}
