// Package replay measures what a control plane of the mesh must cost at least: it is an xDS server
// that sends the responses of a real control plane and does no other work.
//
// In: the address of a control plane, and the streams of proxies. Out: the same responses to the
// same requests. Only the first proxy of each namespace has a stream to the control plane: its
// requests are forwarded, and each response goes to all proxies of the namespace that have
// requested the type. So the CPU time of this server is that of reading requests and writing
// responses by gRPC. The difference to the CPU time of the control plane is what its own work
// costs.
//
//	proxy 1 of shop ─┐ leader                 one stream
//	proxy 2 of shop ─┤ followers  [Server] ─────────────────> control plane
//	proxy 3 of shop ─┘
//
// Followers are sent what their leader is sent, also its inbound listeners: all that counts is the
// number of bytes. The control plane knows the leader by the node of the first leader of the
// namespace, so that all proxies of a namespace have the same state after a reconnect. Only the
// incremental protocol is served.
//
// Start with [Server] in server.go.
package replay
