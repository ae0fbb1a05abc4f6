// Package server is the gRPC shell around xds/push and xds/stream: the AggregatedDiscoveryService, in both its variants.
//
// In: gRPC streams of proxies. Out: the responses that the streams' machines ask for, as bytes that all streams share.
// Law: no rule of the xDS protocol is here, only how its messages get on and off the wire. A stream has two goroutines (a
// third while a response is being written), and both end with it.
//
// A response is not a protobuf message that is marshalled for each stream. It is a small envelope of its own, with version,
// nonce and what is removed, followed by the encoded resources, which are the same memory for every stream; a protobuf
// message is the concatenation of its fields. A codec of our own hands both to gRPC and leaves all other messages to gRPC's
// own, so that other services can live on the same port.
//
//	handler goroutine                          receiving goroutine
//	 admission, first request, Connect
//	 loop: Client.Next ─> envelope ─> SendMsg   loop: RecvMsg ─> stream.Request ─> Client.Request
//
// Requests are always read, also while a response cannot be written, so the two sides never wait for each other.
//
// Start with [Server] in server.go, then session.go; request.go and envelope.go are the two directions of the wire, node.go
// is what a proxy says of itself.
package server
