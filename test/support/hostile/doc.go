// Package hostile generates requests for certificates and tokens that no honest client sends. The
// mutations know the structure of their input: the tree of DER elements of a PKCS #10 request, and
// the header, claims and signature of a JWT.
//
// Inputs: a source of randomness; for tokens, the keys of the issuer and of an attacker. Outputs: a
// request or a token, with its known properties: its public key, or whether the issuer's key has
// signed it. The same seed makes the same structure; signatures differ.
//
// Start with [Requests] in request.go and [Tokens] in token.go; der.go has the tree of DER elements
// and its mutations.
package hostile
