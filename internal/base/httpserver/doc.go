// Package httpserver serves HTTP on a port that untrusted clients may connect to, so that clients
// that hold connections cannot lock out others.
//
// [Serve] takes a listener, a handler and [Options], and serves until its context ends. Connections
// are always accepted. If a limit is exceeded, in total or of one source, the least active
// connection is closed: see [Limits]. Handshake, headers and body of every request have timeouts.
//
//	            accept                    request starts / ends
//	listener ──────────> limiter (fresh) ───────────────────────> busy, idle
//	                        │ over a limit: evict the oldest of the source that has the most
//	                        └─> stale fresh > idle > fresh > busy
//
// Invariants: accepting never waits for a client. A connection without an active request is closed
// before one with an active request. Within its first second a fresh connection is closed only if
// there is no other to close.
//
// Start with [Serve] in server.go; limiter.go decides which connection is closed.
package httpserver
