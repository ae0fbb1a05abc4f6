package cluster

import (
	"testing"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestRemoteHostIsInSNI: if gateways of another network serve a service under another host, that
// host is in the SNI.
func TestRemoteHostIsInSNI(t *testing.T) {
	m := fixture.New(t, []byte(`---
kind: ServiceEntry
metadata: {name: x}
spec:
  hosts: [x.west.example]
  location: MESH_INTERNAL
  resolution: STATIC
  endpoints: [{address: 10.0.0.9, labels: {security.istio.io/tlsMode: istio}}]
  ports: [{number: 80, name: http, protocol: HTTP}]
`), []byte("enableAutoMtls: true"))
	v, g := m.View(fixture.Proxy(t, []byte("{identity: true}"))), NewGenerator()
	for remote, want := range map[string]string{"": "outbound_.80_._.x.west.example", "x.example": "outbound_.80_._.x.example"} {
		for in := range inputs(v, v.Service("x.west.example")) {
			service := *in.Service
			service.RemoteHost = mesh.Hostname(remote)
			in.Service = service.Sealed()
			c := Outbound(g.complete(v, in))
			var tls tlsv3.UpstreamTlsContext
			if err := c.GetTransportSocketMatches()[0].GetTransportSocket().GetTypedConfig().UnmarshalTo(&tls); err != nil {
				t.Fatal(err)
			}
			if tls.GetSni() != want || c.GetName() != "outbound|80||x.west.example" {
				t.Errorf("the SNI of cluster %s is %s, want %s", c.GetName(), tls.GetSni(), want)
			}
		}
	}
}
