// Package httpserver serves HTTP on a port that anybody may connect to, so that clients that hold connections cannot keep others out.
//
// In: a listener, a handler and [Options]. Out: a server that runs until its context ends. Connections are always accepted; when
// there are too many, of all or of one source, one of those is closed that do the least: see [Limits]. No client is trusted to send
// its handshake, headers or body in time.
//
//	            accept                    request starts / ends
//	listener ──────────> limiter (fresh) ───────────────────────> busy, idle
//	                        │ over a limit: evict the oldest of the source that has the most
//	                        └─> stale fresh > idle > fresh > busy
//
// Invariants: accepting never waits for a client; a connection on which no request runs is closed before one on which a request runs;
// within its first second a fresh connection is closed only if there is nothing else to close.
//
// Start with [Serve] in server.go; limiter.go decides which connection is closed.
package httpserver
