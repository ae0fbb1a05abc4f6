package explain

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"google.golang.org/protobuf/types/known/structpb"
)

// byEndpoint is the transport of a cluster that has one for endpoints that take mutual TLS of proxies, and another for the rest.
const byEndpoint = "mutual TLS to endpoints that take it, else plain text"

// What an endpoint's metadata says of how it is called, and clusters match.
const (
	transportMetadata = "envoy.transport_socket_match"
	transportMode     = "tlsMode"
	peerMode          = "istio"
)

func isPeer(e *endpointv3.LbEndpoint) bool {
	return e.GetMetadata().GetFilterMetadata()[transportMetadata].GetFields()[transportMode].GetStringValue() == peerMode
}

// transports says how each endpoint is spoken to, or if all are spoken to alike how that is.
func (w *walk) transports(c *clusterv3.Cluster, list []Endpoint) ([]Endpoint, string) {
	out := make([]Endpoint, len(list))
	alike := true
	for i, e := range list {
		e.Transport = w.transportTo(c, e.peer)
		out[i] = e
		alike = alike && e.Transport == out[0].Transport
	}
	if !alike || len(out) == 0 {
		return out, byEndpoint
	}
	text := out[0].Transport
	for i := range out {
		out[i].Transport = ""
	}
	return out, text
}

// transportTo gives the first transport whose match an endpoint fits. Several that fit alike differ in what they offer by ALPN alone.
func (w *walk) transportTo(c *clusterv3.Cluster, peer bool) string {
	for _, m := range c.GetTransportSocketMatches() {
		if !fits(m.GetMatch(), peer) {
			continue
		}
		text, known := transportOf(m.GetTransportSocket())
		if !known {
			w.note(StageUnsupported, c.GetName(), "its transport %s is not followed", m.GetName())
		}
		return text
	}
	text, _ := transportOf(c.GetTransportSocket())
	return text
}

func fits(match *structpb.Struct, peer bool) bool {
	for name, value := range match.GetFields() {
		if name != transportMode || value.GetStringValue() != peerMode || !peer {
			return false
		}
	}
	return true
}
