package decode

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRetired: whatever a user still has of an old Istio is reported with its successor.
func TestRetired(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"a kind", `
apiVersion: authentication.istio.io/v1alpha1
kind: MeshPolicy
metadata: {name: default}
spec: {peers: [{mtls: {}}]}
`, `foreign // at 1:2
  error: MeshPolicy//default (f.yaml#1:3:1): kind: MeshPolicy of authentication.istio.io is retired, and objects of it are not used: use PeerAuthentication in the root namespace, without a selector
`},
		{"a kind of a group of which all are", `
apiVersion: config.istio.io/v1alpha2
kind: memquota
metadata: {name: q, namespace: a}
`, `foreign // at 1:2
  error: memquota/a/q (f.yaml#1:3:1): kind: memquota of config.istio.io is retired, and objects of it are not used: there is no Mixer: use Telemetry for metrics, logs and traces, AuthorizationPolicy (also CUSTOM) for checks, and an EnvoyFilter with Envoy's rate limit filter for quotas
`},
		{"an EnvoyFilter of Istio 1.0", `
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: lua, namespace: a}
spec:
  workloadLabels: {app: reviews}
  filters:
  - filterName: envoy.lua
    filterType: HTTP
`, `unusable EnvoyFilter/a/lua at 1:2
  error: EnvoyFilter/a/lua (f.yaml#1:7:3): spec.filters: is retired: use configPatches, with applyTo HTTP_FILTER or NETWORK_FILTER
  error: EnvoyFilter/a/lua (f.yaml#1:6:3): spec.workloadLabels: is retired: use workloadSelector.labels
`},
		{"a scope, and headers, in either spelling", `
apiVersion: networking.istio.io/v1alpha3
kind: VirtualService
metadata: {name: v, namespace: a}
spec:
  configScope: PRIVATE
  hosts: [reviews]
  http:
  - append_headers: {a: b}
    route: [{destination: {host: reviews}, removeResponseHeaders: [a]}]
`, `unusable VirtualService/a/v at 1:2
  error: VirtualService/a/v (f.yaml#1:6:3): spec.configScope: is retired: use exportTo: ["."] instead of PRIVATE, ["*"] instead of PUBLIC
  error: VirtualService/a/v (f.yaml#1:9:5): spec.http[0].append_headers: is retired: use headers.request.add
  error: VirtualService/a/v (f.yaml#1:10:44): spec.http[0].route[0].removeResponseHeaders: is retired: use headers.response.remove
`},
		{"an annotation that would have hidden a service", `
apiVersion: v1
kind: Service
metadata:
  name: s
  namespace: a
  annotations:
    networking.istio.io/configScope: PRIVATE
    auth.istio.io/8000: MUTUAL_TLS
spec: {ports: [{port: 80}]}
`, `used Service/a/s at 1:2
  warning: Service/a/s (f.yaml#1:9:5): metadata.annotations[auth.istio.io/8000]: is retired and has no effect: the mode of mutual TLS of this port follows from PeerAuthentication alone; use PeerAuthentication.portLevelMtls and a DestinationRule's portLevelSettings
  warning: Service/a/s (f.yaml#1:8:5): metadata.annotations[networking.istio.io/configScope]: is retired and has no effect: the service is visible in every namespace that its exportTo allows; use networking.istio.io/exportTo: "." instead of PRIVATE, "*" instead of PUBLIC
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, show(Manifest("f.yaml", []byte(test.in)))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestRetiredStored: an object that an API server has stored is used without the field.
func TestRetiredStored(t *testing.T) {
	d := Stored(
		[]byte(`{"apiVersion":"networking.istio.io/v1","kind":"ServiceEntry","metadata":{"name":"a","namespace":"b"},
		"spec":{"hosts":["a.example"],"configScope":"PRIVATE","ports":[{"number":80,"name":"http","protocol":"HTTP"}],"resolution":"DNS"}}`),
	)
	if d.Config == nil || len(d.Problems) != 1 {
		t.Fatalf("%+v", d)
	}
	const want = `ServiceEntry/b/a: spec.configScope: is retired and has no effect: use exportTo: ["."] instead of PRIVATE, ["*"] instead of PUBLIC`
	if got := d.Problems[0].String(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
