// Package certificate says in Envoy's terms whose certificates are shown and believed: the part of TLS that clusters, which call,
// and listeners, which are called, have in common.
//
// In: SDS names of secrets, subject alternative names as users write them, and revocation lists. Out: parts of TLS contexts.
// Law: pure; everything that is a secret, and all trust, comes by SDS.
//
// Start with [Secret] and [Checked] in certificate.go.
package certificate
