package translate

import (
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

func TestTableAppliesEnvoyFilters(t *testing.T) {
	m := fixture.New(t, []byte(`
kind: Service
metadata: {name: web}
spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}
---
kind: EnvoyFilter
metadata: {name: a}
spec:
  configPatches:
  - {applyTo: CLUSTER, match: {cluster: {service: web.default.svc.cluster.local}}, patch: {operation: MERGE, value: {alt_stat_name: patched}}}
  - {applyTo: CLUSTER, patch: {operation: ADD, value: {name: added, type: STATIC}}}
  - {applyTo: LISTENER, match: {context: SIDECAR_OUTBOUND, listener: {portNumber: 80}}, patch: {operation: MERGE, value: {stat_prefix: patched}}}
  - {applyTo: VIRTUAL_HOST, match: {context: SIDECAR_OUTBOUND}, patch: {operation: ADD, value: {name: patched, domains: [patched]}}}
  - {applyTo: EXTENSION_CONFIG, patch: {operation: ADD, value: {name: ext, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer, max_request_bytes: 1}}}}
  - {applyTo: LISTENER, match: {listener: {name: nobody}}, patch: {operation: REMOVE}}
`), nil)
	table := NewTable(Options{})
	proxy := fixture.Proxy(t, nil)
	k := view.KeyFor(m.Snapshot(), proxy)
	all := map[string]*resource.Resource{}
	for _, g := range table.Generators {
		scoped := k
		if g.Scope != nil {
			scoped = g.Scope(k)
		}
		v := view.Build(m.Snapshot(), scoped)
		if g.All != nil {
			for _, r := range g.All(v) {
				all[api.ShortType(r.TypeURL)+" "+r.Name] = r
			}
			continue
		}
		for _, n := range []string{"80", "ext"} {
			if r := g.Named(v, n); r != nil {
				all[api.ShortType(r.TypeURL)+" "+r.Name] = r
			}
		}
	}
	for _, name := range []string{"CDS outbound|80||web.default.svc.cluster.local", "LDS 0.0.0.0_80", "RDS 80"} {
		if r := all[name]; r == nil || !strings.Contains(string(r.Body), "patched") {
			t.Errorf("%s is not patched", name)
		}
	}
	if all["CDS added"] == nil || all["ECDS ext"] == nil {
		t.Error("the added resource is missing")
	}
	found := table.Conflicts(view.Build(m.Snapshot(), k))
	if len(found) != 1 || found[0].Field != "spec.configPatches[5]" {
		t.Errorf("problems: %v", found)
	}
	s, d := m.Apply(
		t,
		"kind: EnvoyFilter\nmetadata: {name: a}\nspec: {configPatches: [{applyTo: CLUSTER, match: {cluster: {service: web.default.svc.cluster.local}}, patch: {operation: MERGE, value: {alt_stat_name: edited}}}]}",
	)
	if !view.Build(m.Snapshot(), k).IsAffectedBy(d) || !view.KeyChangeFilter(m.Snapshot(), s, d)(proxy) {
		t.Error("an edit is not seen")
	}
}
