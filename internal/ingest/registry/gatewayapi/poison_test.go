package gatewayapi_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	gatewayx "sigs.k8s.io/gateway-api/apisx/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func TestPoisonedObjects(t *testing.T) {
	var batch mesh.Batch
	for _, e := range inputs(t, []byte(manyRoutes(3))) {
		e.Source = "test"
		batch = append(batch, e)
	}
	conform.RunPoisoned(t, func(r *recovery.Recorder) registry.Converter {
		return gatewayapi.New(gatewayapi.Options{Recovery: r})
	}, batch)
}

// everyStep has objects for each step of the conversion, and objects that the steps read besides.
const everyStep = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: own}
spec:
  controllerName: istio.io/gateway-controller
  parametersRef: {group: "", kind: ConfigMap, namespace: default, name: overlays}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: overlays}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: other}
spec: {controllerName: example.com/controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g}
spec: {gatewayClassName: own, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: v1
kind: Service
metadata: {name: g-own}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: others}
spec: {gatewayClassName: other, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: lone}
spec: {parentRef: {name: others}, listeners: [{name: http, port: 81, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r}
spec: {parentRefs: [{name: g}], rules: [{backendRefs: [{name: web, port: 443}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{name: https, port: 443}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: tls}
spec:
  targetRefs: [{group: "", kind: Service, name: web, sectionName: https}]
  validation: {hostname: web.example.com, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: ca}
data: {ca.crt: none}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: vms}
spec: {hosts: [vms.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackendTrafficPolicy
metadata: {name: retries}
spec:
  targetRefs: [{group: networking.istio.io, kind: ServiceEntry, name: vms}]
  retryConstraint: {budget: {percent: 10}}
`

// TestPanicsAfterReading removes the spec of one object after the other while the Converter has it,
// so that each step panics that reads it, also for another object. Each panic must be recovered for
// one object and leave nothing marked: the next event causes none. When the spec is there again and
// everything is converted again, the result is as before. Policies stay, because their targets are
// read whenever they are marked.
func TestPanicsAfterReading(t *testing.T) {
	batch := inputs(t, []byte(everyStep))
	named := map[string]bool{}
	for i := range batch {
		panics := 0
		c := gatewayapi.New(gatewayapi.Options{
			Deploys: true, Recovery: recovery.New(recovery.Options{Count: func(string) { panics++ }}),
		})
		s, victim := newState(), batch[i].Config
		if victim.Kind == api.BackendTLSPolicy || victim.Kind == api.XBackendTrafficPolicy {
			continue
		}
		others := slices.Delete(slices.Clone(batch), i, i+1)
		s.apply(t, c.Convert(append(slices.Clone(batch), mesh.Event{Op: mesh.Synced})))
		want, spec := s.result(t, c), victim.Spec
		victim.Spec = nil
		for _, change := range []mesh.Batch{deletesOf(others), others} {
			s.apply(t, c.Convert(change))
			for scope := range s.problems {
				if step, isPanic := strings.CutPrefix(scope, "panic: "); isPanic {
					named[step] = true
				}
			}
		}
		before := panics
		if s.apply(t, c.Convert(mesh.Batch{{Op: mesh.Synced}})); panics != before {
			t.Errorf("%s: the event after the panics causes %d", victim.Key, panics-before)
		}
		victim.Spec = spec
		s.apply(t, c.Convert(deletesOf(others)))
		s.apply(t, c.Convert(others))
		if diff := gocmp.Diff(want, s.result(t, c)); diff != "" {
			t.Errorf("%s: when the spec is there again (-want +got):\n%s", victim.Key, diff)
		}
	}
	want := []string{
		"convert BackendTLSPolicy/default/tls",
		"convert Gateway.gateway.networking.k8s.io/default/g",
		"convert Gateway.gateway.networking.k8s.io/default/others",
		"convert GatewayClass//own",
		"convert HTTPRoute/default/r",
		"convert Service/default/web",
		"convert ServiceEntry/default/vms",
		"convert XBackendTrafficPolicy/default/retries",
		"report Gateway.gateway.networking.k8s.io/default/g",
		"report ListenerSet/default/lone",
	}
	if diff := gocmp.Diff(want, slices.Sorted(maps.Keys(named))); diff != "" {
		t.Errorf("steps that panicked (-want +got):\n%s", diff)
	}
}

// TestXMeshPanics: an XMesh whose status cannot be computed has the Problem of the panic until its
// next good version, and the next event causes no other one.
func TestXMeshPanics(t *testing.T) {
	panics := 0
	c := gatewayapi.New(gatewayapi.Options{Recovery: recovery.New(recovery.Options{Count: func(string) { panics++ }})})
	good := inputs(t, []byte(`
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XMesh
metadata: {name: mesh}
spec: {controllerName: istio.io/gateway-controller}`))
	poisoned := *good[0].Config
	poisoned.Hash, poisoned.Spec = poisoned.Hash+1, (*gatewayx.XMesh)(nil)
	s := newState()
	s.apply(t, c.Convert(mesh.Batch{{Config: &poisoned}}))
	s.apply(t, c.Convert(mesh.Batch{{Op: mesh.Synced}}))
	if panics != 1 || len(s.problems) != 1 {
		t.Errorf("%d panics, the Problems are %v", panics, s.problems)
	}
	s.apply(t, c.Convert(good))
	if len(s.problems) > 0 || c.Statuses().Len() != 1 {
		t.Errorf("fixed: %d statuses, the Problems are %v", c.Statuses().Len(), s.problems)
	}
}

// deletesOf returns events that delete all objects of batch.
func deletesOf(batch mesh.Batch) mesh.Batch {
	var out mesh.Batch
	for _, e := range batch {
		out = append(out, mesh.Event{Op: mesh.Delete, Config: e.Config})
	}
	return out
}

// result returns the objects, statuses and Problems that s.text renders.
func (s *state) result(t testing.TB, c *gatewayapi.Converter) []string {
	t.Helper()
	objects, status, problems := s.text(t, c.Statuses())
	return []string{string(objects), string(status), string(problems)}
}
