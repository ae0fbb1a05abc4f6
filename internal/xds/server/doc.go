// Package server is the gRPC shell around xds/push and xds/stream: the AggregatedDiscoveryService, in both its variants.
//
// In: gRPC streams of proxies. Out: the responses that the streams' machines ask for, as bytes that all streams share.
// Law: no rule of the xDS protocol is here, only how its messages get on and off the wire. A stream has two goroutines, and
// both end with it. gRPC never holds more than one response of a stream.
//
// A response is not a protobuf message that is marshalled for each stream. It is a small envelope of its own, with version,
// nonce and what is removed, behind the encoded resources, which are the same memory for every stream; a protobuf
// message is the concatenation of its fields. A codec of our own hands both to gRPC and leaves all other messages to gRPC's
// own, so that other services can live on the same port.
//
//	handler goroutine                          receiving goroutine
//	 authentication, first request, admission, Connect
//	 loop: Client.Next ─> envelope ─> write     loop: RecvMsg ─> stream.Request ─> Client.Request
//
// Requests are always read, also while a response cannot be written, so the two sides never wait for each other. Streams are
// admitted by what they cost (admission.go), ended when the proxy does not read (writer.go), and moved to other replicas over
// time (evening.go).
//
// Nothing that a client sends is trusted before it is authenticated, and little of it is read (docs/adr/0032). Each port has its own
// [Limits] (limits.go). In the order in which a client meets them:
//
//	pending.go     connections and calls on which nothing was proved: bounded for each source, the oldest is dropped
//	unread.go      bytes of messages that are not decoded yet: a budget of the port, the largest holder is closed
//	               (connection.go and frames.go count them)
//	admission.go   places for decoding and for opening a stream; gate.go serves the newest first under overload
//	elements.go    the elements of a message, counted before it is decoded
//	guard.go       the same for the other services of the port
//
// Not every client is a proxy: who asks about the control plane itself is answered by [Debug] (debug.go), and who says so in
// its node metadata is served by a [Handler] (handler.go). A port may have TLS, with certificates that rotate (tls.go).
//
// Start with [Server] in server.go, then session.go; request.go and envelope.go are the two directions of the wire, node.go
// is what a proxy says of itself, link.go the connection that a stream comes on.
package server
