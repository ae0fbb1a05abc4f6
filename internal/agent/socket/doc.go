// Package socket has the Unix sockets between Envoy and the agent.
//
// In: paths. Out: listeners, and whether somebody else serves a path already. Law: a socket that nobody serves is a leftover,
// and is replaced; one that somebody serves is left alone.
//
// Start with [Listen].
package socket
