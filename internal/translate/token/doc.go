// Package token makes Envoy's matchers of the claims of a validated token, for access policies and
// routes.
//
// The input is the name of a claim and what its value must match. The filter that validates tokens
// writes their payload to dynamic metadata; only this package names its place.
//
// Start with [Claim] in claim.go.
package token
