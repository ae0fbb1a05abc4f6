// Package authorization says who may call a workload (AuthorizationPolicy).
//
// In: the policies that hold for a proxy, oldest first, and the mesh's settings. Out: Envoy filters, for requests and for raw
// connections, in the order in which they decide: CUSTOM, AUDIT, DENY, ALLOW. AUDIT decides nothing; it stands before
// DENY and ALLOW, so that what they refuse is audited.
// Law: pure, and it fails closed: what cannot be expressed never makes an ALLOW wider or a DENY narrower. No text of a user gets into
// a regular expression but through quoted (text.go).
//
// A rule is two trees: permissions, over what is asked for, and principals, over who asks. They are made by the same code for requests
// and for connections, which know less: an ALLOW that asks for what a connection does not have matches none, and a DENY leaves
// that out, and so refuses more.
//
// Start with [Table.For] in table.go, then rule.go.
package authorization
