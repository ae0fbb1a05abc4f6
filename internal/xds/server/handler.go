package server

import (
	"context"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// Handler serves the streams of one kind of client that is not a proxy. Its clients have the
// Handler's name in Options.Generators as GENERATOR in their node metadata. Istio calls the
// generator of configuration objects "api".
//
// The server reads the first request of the stream, and the first Recv returns it. All later
// requests are read by the Handler. The stream ends when the method returns. A gRPC status error is
// passed on to the client. io.EOF and the context's error are a normal end, and any other error is
// codes.Unknown. The context ends when the client disconnects or the server stops. Then Recv and
// Send fail too. Streams of Handlers are neither counted nor shown as proxies.
type Handler interface {
	// ServeSotW serves a stream of the state-of-the-world variant. ServeDelta serves one of the
	// incremental variant.
	ServeSotW(ctx context.Context, h Hello, s SotWStream) error
	ServeDelta(ctx context.Context, h Hello, s DeltaStream) error
}

// Hello describes the client of a stream.
type Hello struct {
	// Node is the node of the first request, without its extensions. Its ID need not have the form of
	// a proxy's.
	Node *corev3.Node
	// Peer is the network address of the client.
	Peer string
	// Secure reports whether the stream uses TLS. Identities are the authenticated SPIFFE IDs of
	// the client, as "spiffe://trust-domain/ns/namespace/sa/account". They come from
	// Options.Authenticate, or else from the client's verified certificate. Without proof there are
	// none. The node's own statements are not a proof.
	Secure     bool
	Identities []string
	// Cluster is the cluster whose API server authenticated the identities, according to
	// Options.Authenticate; "" if none did. The cluster in the node is not a proof.
	Cluster string
}

// SotWStream sends and receives the messages of a stream of the state-of-the-world variant. One
// goroutine may call Recv while another calls Send. A message must not be changed after it was
// passed to Send. Send fails, and the stream ends, if the client does not read for longer than
// Options.SendTimeout.
type SotWStream interface {
	Recv() (*discoveryv3.DiscoveryRequest, error)
	Send(m *discoveryv3.DiscoveryResponse) error
}

// DeltaStream sends and receives the messages of a stream of the incremental variant; see
// SotWStream.
type DeltaStream interface {
	Recv() (*discoveryv3.DeltaDiscoveryRequest, error)
	Send(m *discoveryv3.DeltaDiscoveryResponse) error
}
