// Package socket creates the Unix sockets on which Envoy and the agent talk to each other.
//
// [Listen] creates a listener for a path and [IsServed] reports whether a process already serves a
// path. Invariant: a socket file without a server is stale and is replaced; one with a server is
// never taken over.
package socket
