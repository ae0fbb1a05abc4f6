// Package token is what proxies leave of a request's token, once it is checked, for those who decide by it: policies and routes.
//
// In: the name of a claim, and what it must be. Out: Envoy's matcher of it. Law: the filter that checks tokens writes what this
// reads, and nobody else names the place.
//
// Start with [Claim] in claim.go.
package token
