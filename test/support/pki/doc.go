// Package pki makes certificates for tests: authorities, what they sign, and lists of what they revoked.
//
// In: certificates as templates, of which only what matters to a test is set. Out: pairs of a certificate and its key, as
// values of crypto/tls, as PEM, or as files.
//
// Law: nothing here gives an error but writing files. Templates are the test's own: what cannot be signed is a bug of the test,
// and a panic.
//
// Start with [Authority] and [Pair.Issue] in pair.go.
package pki
