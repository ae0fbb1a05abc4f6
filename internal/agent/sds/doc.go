// Package sds serves Envoy its secrets (envoy.service.secret.v3), SotW and delta, over a Unix socket.
//
// In: a store of secrets, and streams of requests for names. Out: the secrets of those names, again whenever one changes.
// Law: a name of which there is no secret is not answered. Envoy waits for it; an answer without it would have Envoy serve
// without certificate.
//
// Start with [Server] and its serve in server.go; sotw.go and delta.go have what the two forms of a stream do differently, envoy.go what is
// sent.
package sds
