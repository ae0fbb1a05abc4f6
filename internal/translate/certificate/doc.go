// Package certificate makes the parts of Envoy's TLS contexts that clusters and listeners share:
// SDS configs and validation contexts.
//
// The inputs are SDS names of secrets, subject alternative names as users write them, and
// revocation lists. The functions are pure. Every secret and every trusted authority is referenced
// by SDS and never embedded.
//
// Start with [Secret] and [Checked] in certificate.go.
package certificate
