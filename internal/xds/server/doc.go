// Package server is the gRPC layer around xds/push and xds/stream. It implements the
// AggregatedDiscoveryService in both variants.
//
// The inputs are the gRPC streams of proxies. The outputs are the responses that the streams'
// machines request, as bytes that all streams share. The package has no rules of the xDS protocol:
// it only decodes requests and writes responses. A stream has two goroutines, and both end with it.
// gRPC never holds more than one response of a stream.
//
// A response is not a protobuf message that is marshalled for each stream. It consists of the
// encoded resources, which are the same memory for every stream, and a small envelope of the
// stream. The envelope has the version, the nonce and the removed names. This works because a
// protobuf message is the concatenation of its fields. A codec of this package passes both to gRPC.
// It leaves all other messages to gRPC's codec, so that other services can use the same port.
//
//	handler goroutine                          receiving goroutine
//	 authentication, first request, admission, Connect
//	 loop: Client.Next ─> envelope ─> write     loop: RecvMsg ─> stream.Request ─> Client.Request
//
// Requests are always read, even while a response cannot be written, so the two sides never wait
// for each other. Streams are admitted by their cost (admission.go), ended when the proxy does not
// read (writer.go), and moved to other replicas over time (rebalance.go).
//
// No input of a client is trusted before it is authenticated, and little of it is read
// (docs/adr/0032). Each port has its own [Limits] (limits.go). In the order in which a client meets
// them:
//
//	pending.go     connections and calls that are not authenticated: bounded for each source,
//	               the oldest is dropped
//	unread.go      bytes of messages that are not decoded yet: a budget of the port, for which
//	               connections wait in unread_queue.go, and stalled ones are closed
//	               (connection.go and frames.go count the bytes)
//	admission.go   places for decoding and for opening a stream; gate.go serves the newest first
//	               under overload
//	elements.go    the elements of a message, counted before it is decoded
//	guard.go       the same for the other services of the port
//
// Not every client is a proxy. [Debug] answers requests about the control plane itself (debug.go).
// A [Handler] serves clients that select it in their node metadata (handler.go). A port may have
// TLS, with certificates that rotate (tls.go).
//
// Start reading with [Server] in server.go, then session.go. request.go and envelope.go are the two
// directions of the wire, wire_message.go reads the fields of a request, extension_table.go and
// node.go decode the node of a proxy, link.go is the connection of a stream, and buffer_pool.go has
// the buffers of received messages.
package server
