package gatewayapi_test

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestServiceAccounts: the listeners of a Gateway, also those of its ListenerSets, name the service
// account of the proxies that are deployed for it.
func TestServiceAccounts(t *testing.T) {
	batch := inputs(t, []byte(`
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: edge}
spec:
  gatewayClassName: istio
  allowedListeners: {namespaces: {from: All}}
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
kind: ListenerSet
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: more, namespace: other}
spec: {parentRef: {name: edge, namespace: default}, listeners: [{name: http, port: 8080, protocol: HTTP}]}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: renamed, annotations: {gateway.istio.io/name-override: front}}
spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: annotated, annotations: {gateway.istio.io/service-account: own, gateway.istio.io/name-override: back}}
spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Gateway
apiVersion: gateway.networking.k8s.io/v1
metadata: {name: manual, annotations: {gateway.istio.io/service-account: own}}
spec: {gatewayClassName: istio, addresses: [{type: Hostname, value: front}], listeners: [{name: http, port: 80, protocol: HTTP}]}
`))
	for deploys, want := range map[bool]map[string]string{
		true:  {"edge": "edge-istio", "more": "edge-istio", "renamed": "front", "annotated": "own", "manual": ""},
		false: {"edge": "", "more": "", "renamed": "", "annotated": "", "manual": ""},
	} {
		c, s := gatewayapi.New(gatewayapi.Options{Deploys: deploys}), newState()
		s.apply(t, c.Convert(append(batch[:len(batch):len(batch)], mesh.Event{Op: mesh.Synced})))
		found := 0
		for _, object := range s.objects {
			if object.Kind != api.Gateway {
				continue
			}
			found++
			name := object.Extension.Source.Name
			if got := object.Extension.Gateway.ServiceAccount; got != want[name] {
				t.Errorf("deployed %v: the account of %s is %q, want %q", deploys, name, got, want[name])
			}
		}
		if found != len(want) {
			t.Errorf("deployed %v: %d listeners, want %d", deploys, found, len(want))
		}
	}
}
