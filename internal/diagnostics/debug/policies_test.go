package debug

import (
	"testing"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestTelemetryOf: a Telemetry that refers to a Gateway applies to the proxies of that Gateway, and
// not to all of its namespace.
func TestTelemetryOf(t *testing.T) {
	m := fixture.New(t, []byte(`
kind: Telemetry
metadata: {name: mesh, namespace: istio-system}
spec: {tracing: [{disableSpanReporting: true}]}
---
kind: Telemetry
metadata: {name: gw, namespace: shop}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: gw}]
  accessLogging: [{disabled: true}]
`), nil)
	web, gw := proxy("web-1", "shop", "10.1.0.1"), proxy("gw-1", "shop", "10.1.0.2")
	gw.Type, gw.Labels = "router", map[string]string{"gateway.networking.k8s.io/gateway-name": "gw"}
	for _, tt := range []struct {
		of      proxyTelemetry
		want    namespacedName
		logging int
	}{
		{telemetryOf(m.Snapshot(), web), namespacedName{}, 0},
		{telemetryOf(m.Snapshot(), gw), namespacedName{"shop", "gw"}, 1},
	} {
		if tt.of.Workload != tt.want || tt.of.Proxy != (namespacedName{}) || len(tt.of.Logging) != tt.logging ||
			tt.of.Root != (namespacedName{"istio-system", "mesh"}) || len(tt.of.Tracing) != 1 {
			t.Errorf("got %+v, want the mesh's and %v", tt.of, tt.want)
		}
	}
}
