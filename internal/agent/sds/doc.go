// Package sds serves secrets to Envoy over a Unix socket (envoy.service.secret.v3, SotW and delta).
//
// It reads a secret.Store. A stream is sent each secret that it subscribes to, and again whenever
// that secret changes.
//
// Invariant: a name without a secret gets no response. Envoy keeps waiting for it; a response
// without the secret would have Envoy serve without a certificate.
//
// Start with [Server] and serveStream in server.go. sotw.go and delta.go hold what differs between
// the two protocols, envoy.go builds the resources.
package sds
