package server

import (
	"context"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// Handler serves the streams of one kind of client that is not a proxy: those whose node metadata has GENERATOR set to the
// name that the Handler has in Options.Generators. Istio's name for what serves config objects is "api".
//
// The server has read the first request of the stream, which the first Recv gives; from then on the stream is the Handler's.
// The stream ends when the method returns: a gRPC status error is handed on to the client, io.EOF and the context's error
// are a good end, anything else is codes.Unknown. The context ends when the client goes or the server stops, which also
// makes Recv and Send fail. Streams of Handlers are neither counted nor shown as proxies.
type Handler interface {
	// ServeSotW serves a stream of the state-of-the-world variant, ServeDelta one of the incremental variant.
	ServeSotW(ctx context.Context, h Hello, s SotWStream) error
	ServeDelta(ctx context.Context, h Hello, s DeltaStream) error
}

// Hello is who a stream comes from.
type Hello struct {
	// Node is that of the first request. Its ID need not have the form of a proxy's.
	Node *corev3.Node
	// Peer is the network address of the client.
	Peer string
	// Secure says that the stream came over TLS, and Identities are who it comes from, as
	// "spiffe://trust-domain/ns/namespace/sa/account", by what Options.Authenticate says or else by the client's certificate,
	// verified; none if it has proved nothing. What the node says of itself is no proof.
	Secure     bool
	Identities []string
	// Cluster is the cluster whose API server vouches for the identities, by what Options.Authenticate says; "" if none does. What
	// the node says of its cluster is no proof.
	Cluster string
}

// SotWStream is the messages of a stream of the state-of-the-world variant. One goroutine may call Recv while another calls Send.
// A message must not be changed after it was handed to Send. Send fails, and the stream ends, if the client does not
// read for longer than Options.SendTimeout.
type SotWStream interface {
	Recv() (*discoveryv3.DiscoveryRequest, error)
	Send(m *discoveryv3.DiscoveryResponse) error
}

// DeltaStream is the messages of a stream of the incremental variant; see SotWStream.
type DeltaStream interface {
	Recv() (*discoveryv3.DeltaDiscoveryRequest, error)
	Send(m *discoveryv3.DeltaDiscoveryResponse) error
}
