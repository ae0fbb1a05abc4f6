// Package api names things: the xDS type URLs that meshpilot serves and the table of object kinds that it reads.
//
// In: nothing. Out: constants and one read-only table. Law: imports nothing of ours and holds no state.
//
// Start with [Kind] and [Kinds]; the type URLs are in typeurl.go.
package api
