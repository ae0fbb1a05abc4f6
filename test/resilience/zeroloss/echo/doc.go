// Package echo has servers that answer with their identity, and callers of them, for each protocol
// that a sidecar handles differently.
//
// In: how to listen and how to dial (a node's, see package netns). Out: a [Server], and a [Caller]
// for every [Kind]; a call comes back as a [Reply], which names the server that gave it, or as an
// error. Law: nothing is retried, and an answer to something else is an error: a lost request is
// always seen.
//
// Every port takes plain text and TLS, told apart by the first byte, so that callers may go over
// from one to the other at any moment. Start reading at kind.go and server.go.
package echo
