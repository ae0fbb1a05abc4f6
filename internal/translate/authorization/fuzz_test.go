package authorization

import (
	"testing"

	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	security "istio.io/api/security/v1beta1"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// FuzzPolicies generates filters from arbitrary policies, valid or not. The filters are valid for
// Envoy's API, are the same the second time, and a policy that allows or denies always has a
// filter.
func FuzzPolicies(f *testing.F) {
	for _, text := range []string{
		`rules: [{from: [{source: {principals: ["*"], namespaces: ["a*"], notServiceAccounts: [b]}}], to: [{operation: {paths: ["/a/{*}", "*"], hosts: ["[::1]"], ports: ["x"]}}], when: [{key: "request.headers[", values: [a]}]}]`,
		`action: DENY, rules: [{}]`, `rules: []`, `action: CUSTOM, provider: {name: x}, rules: [{to: [{operation: {methods: [""]}}]}]`, `action: AUDIT, rules: [{when: [{key: source.ip, notValues: [x]}]}]`,
		`action: DENY, rules: [{when: [{key: "request.auth.claims[a][", values: ["["]}, {key: "experimental.envoy.filters.x[y]", values: ["[z]"]}]}]`,
	} {
		spec := new(security.AuthorizationPolicy)
		raw, err := yaml.YAMLToJSON([]byte("{" + text + "}"))
		if err != nil {
			f.Fatal(err)
		}
		if err := protojson.Unmarshal(raw, spec); err != nil {
			f.Fatal(err)
		}
		body, err := proto.Marshal(spec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	m := fixture.New(f, nil, nil)
	proxy := fixture.Proxy(
		f,
		[]byte(`{type: sidecar, name: p, namespace: default, addresses: [10.0.0.1], labels: {app: p}}`),
	)
	key := config.Key{Kind: api.AuthorizationPolicy, Namespace: "default", Name: "fuzz"}
	f.Fuzz(func(t *testing.T, body []byte) {
		spec := new(security.AuthorizationPolicy)
		if proto.Unmarshal(body, spec) != nil {
			return
		}
		spec.Selector, spec.TargetRef, spec.TargetRefs = nil, nil, nil
		c, err := config.New(config.Meta{Key: key}, spec)
		if err != nil {
			return
		}
		m.Send(mesh.Event{Config: c})
		defer m.Send(mesh.Event{Op: mesh.Delete, Config: c})
		first, second := NewTable().For(m.View(proxy)), NewTable().For(m.View(proxy))
		if len(first.HTTP) != len(second.HTTP) || len(first.TCP) != len(second.TCP) {
			t.Fatalf("%d and %d filters, then %d and %d", len(first.HTTP), len(first.TCP),
				len(second.HTTP), len(second.TCP))
		}
		for i, filter := range first.HTTP {
			if !proto.Equal(filter, second.HTTP[i]) {
				t.Errorf("%v differs when generated again", filter)
			}
			if rules := new(rbacv3.RBAC); filter.GetTypedConfig().UnmarshalTo(rules) == nil &&
				rules.ValidateAll() != nil {
				t.Errorf("%v: %v", spec, rules.ValidateAll())
			}
		}
		for _, filter := range first.TCP {
			if rules := new(tcprbacv3.RBAC); filter.GetTypedConfig().UnmarshalTo(rules) == nil &&
				rules.ValidateAll() != nil {
				t.Errorf("%v: %v", spec, rules.ValidateAll())
			}
		}
		if action := spec.GetAction(); action == security.AuthorizationPolicy_ALLOW && len(first.HTTP) == 0 {
			t.Errorf("%v lets everything in", spec)
		}
	})
}
