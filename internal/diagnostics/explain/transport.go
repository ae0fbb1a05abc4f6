package explain

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"google.golang.org/protobuf/types/known/structpb"
)

// byEndpoint describes a cluster whose transport differs between endpoints that accept mutual TLS
// of proxies and the other endpoints.
const byEndpoint = "mutual TLS to endpoints that support it, otherwise plain text"

// Endpoint metadata that transport socket matches of clusters compare.
const (
	transportMetadata = "envoy.transport_socket_match"
	transportMode     = "tlsMode"
	peerMode          = "istio"
)

// isPeer reports whether the metadata of an endpoint marks it as one of a proxy that accepts mutual
// TLS of the mesh.
func isPeer(e *endpointv3.LbEndpoint) bool {
	return e.GetMetadata().GetFilterMetadata()[transportMetadata].GetFields()[transportMode].GetStringValue() == peerMode
}

// setTransports returns a copy of the endpoints with the transport of each. If all have the same,
// it returns that as the common transport and leaves the endpoints' empty; otherwise, and without
// endpoints, the common one is byEndpoint. Each endpoint whose transport match has an unsupported
// transport adds a step to w.
func (w *walk) setTransports(c *clusterv3.Cluster, list []Endpoint) ([]Endpoint, string) {
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

// transportTo returns the text of the first transport whose match fits an endpoint, or of the
// cluster's own. peer is true if the endpoint accepts mutual TLS of the mesh. An unsupported
// transport of a match, not the cluster's own, adds a step.
func (w *walk) transportTo(c *clusterv3.Cluster, peer bool) string {
	for _, m := range c.GetTransportSocketMatches() {
		if !matchesTransport(m.GetMatch(), peer) {
			continue
		}
		text, known := transportOf(m.GetTransportSocket())
		if !known {
			w.addNote(StageUnsupported, c.GetName(), "its transport %s is not supported", m.GetName())
		}
		return text
	}
	text, _ := transportOf(c.GetTransportSocket())
	return text
}

// matchesTransport reports whether the match of a transport fits an endpoint. peer is true if the
// endpoint accepts mutual TLS of the mesh. A match without fields fits all. Fields other than the
// mode of mutual TLS fit none.
func matchesTransport(match *structpb.Struct, peer bool) bool {
	for name, value := range match.GetFields() {
		if name != transportMode || value.GetStringValue() != peerMode || !peer {
			return false
		}
	}
	return true
}
