// Package authority is a certificate authority for tests of its clients: it serves
// istio.v1.auth.IstioCertificateService and signs every request.
//
// In: requests over gRPC. Out: certificates, and the requests with their callers. Law: it checks
// only the conditions that a test configures.
//
// Start with [Start].
package authority
