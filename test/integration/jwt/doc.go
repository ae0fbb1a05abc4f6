// Package jwt sends tokens through real Envoys.
//
//	token_test.go       issuers, and the tokens that they sign, good and bad
//	check_test.go       many tokens against many rules: one Envoy, a listener for each scene,
//	                    configured as a proxy of a sidecar is
//	gateway_test.go     control plane, agent and Envoy: keys that are fetched, rotate, are away, were
//	                    never there; routes by claims
//
// Start with TestChecks in check_test.go.
package jwt
