// Package api defines the names that meshpilot uses: the xDS type URLs that it serves, and the
// table of object kinds that it reads. It imports no other package of meshpilot and has no state.
//
// Start reading with [Kind] and [Kinds]; the type URLs are in typeurl.go.
package api
