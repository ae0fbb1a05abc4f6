// Package keyset parses the documents in which token issuers publish their keys.
//
// Input: a JSON Web Key Set (RFC 7517), a single key, or PEM certificates by key ID, as Google
// publishes them. Output: a JSON Web Key Set in canonical form with the keys that Envoy supports.
//
// Invariants: the output contains no private key. Equal sets of keys return equal bytes,
// independent of order and additional members.
//
// Start with [ParsePublished] in keyset.go.
package keyset
