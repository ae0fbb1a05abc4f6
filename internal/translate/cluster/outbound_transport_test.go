package cluster

import (
	"fmt"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestTransportsAgreeWithClusters compares the transport of clusters with the transport sockets that
// are generated for them, for each mode of TLS, with and without automatic mutual TLS and for each
// way of finding endpoints.
func TestTransportsAgreeWithClusters(t *testing.T) {
	seen := map[OutboundTransport]int{}
	for _, auto := range []bool{true, false} {
		for _, resolution := range []string{"STATIC", "NONE", "DNS"} {
			for _, mode := range []string{"", "DISABLE", "ISTIO_MUTUAL", "SIMPLE"} {
				tls := ""
				if mode != "" {
					tls = ", trafficPolicy: {tls: {mode: " + mode + "}}"
				}
				endpoints := "endpoints: [{address: 10.0.0.9, labels: {security.istio.io/tlsMode: istio}}], "
				if resolution == "NONE" {
					endpoints = ""
				}
				m := fixture.New(t, fmt.Appendf(nil, `---
kind: ServiceEntry
metadata: {name: x}
spec: {hosts: [x.example], location: MESH_INTERNAL, %sresolution: %s, ports: [{number: 80, name: http, protocol: HTTP}]}
---
kind: DestinationRule
metadata: {name: x}
spec: {host: x.example%s, subsets: [{name: v1}]}
`, endpoints, resolution, tls), fmt.Appendf(nil, "enableAutoMtls: %v", auto))
				v := m.View(fixture.Proxy(t, []byte("{identity: true}")))
				g := NewGenerator()
				for in := range inputs(v, v.Service("x.example")) {
					in = g.complete(v, in)
					c := Outbound(in)
					want := PlainText
					switch socket := c.GetTransportSocket(); {
					case socket == nil && len(c.GetTransportSocketMatches()) > 0:
						want = DeclaredTLS
					case socket == nil:
					case mode == "SIMPLE":
						want = ClientTLS
					default:
						want = MeshTLS
					}
					found := false
					for name, got := range Transports(v, v.Service(mesh.Hostname("x.example"))) {
						if name == in.Name() {
							found = true
							if seen[got]++; got != want {
								t.Errorf("%s, auto %v, mode %q, subset %q: %s, but the cluster is %s", resolution, auto, mode, in.Subset, got, want)
							}
						}
					}
					if !found {
						t.Errorf("no transport of %s", in.Name())
					}
				}
			}
		}
	}
	for _, x := range []OutboundTransport{PlainText, MeshTLS, DeclaredTLS, ClientTLS} {
		if seen[x] == 0 {
			t.Errorf("no cluster uses %s", x)
		}
	}
}
