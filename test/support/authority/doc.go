// Package authority is a certificate authority for tests of those who ask one: it speaks istio.v1.auth.IstioCertificateService
// and signs what it is asked to sign.
//
// In: requests over gRPC. Out: certificates, and what was asked and by whom. Law: it checks nothing but what a test tells it to.
//
// Start with [Start].
package authority
