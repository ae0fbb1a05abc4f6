// Package keyset reads documents in which issuers of tokens publish their keys.
//
// In: a JSON Web Key Set (RFC 7517), one key of such, or certificates in PEM by the keys' names, as Google has them. Out: a JSON Web Key
// Set in canonical form with the keys that Envoy can use. Law: no private half of a key gets through, and equal keys give equal bytes,
// in whatever order and with whatever else beside them they came.
//
// Start with [Published] in keyset.go.
package keyset
