// Package pki makes certificates for tests: authorities, certificates and revocation lists.
//
// In: certificates as templates, in which a test sets only the fields that it needs. Out: pairs of
// a certificate and its key, as values of crypto/tls, as PEM, or as files.
//
// Law: only writing files returns an error. Templates are the test's own: what cannot be signed is
// a bug of the test, and a panic.
//
// Start with [Authority] and [Pair.Issue] in pair.go.
package pki
