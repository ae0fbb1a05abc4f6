// Package authorization generates the filters that enforce access policies (AuthorizationPolicy).
//
// The inputs are the policies that apply to a proxy, oldest first, and the mesh's settings. The
// outputs are Envoy filters for requests and for raw connections, in the order of evaluation:
// CUSTOM, AUDIT, DENY, ALLOW. AUDIT decides nothing. It precedes DENY and ALLOW, so that calls
// which these refuse are audited.
//
// The filters fail closed: a condition that cannot be expressed never makes an ALLOW match more or
// a DENY match less. Users' text enters regular expressions only through quoted (text.go).
//
// A rule is two trees: permissions, over properties of the request, and principals, over properties
// of the caller. The same code generates them for requests and for connections, which have fewer
// attributes. An ALLOW rule with an attribute that connections lack matches no connection. A DENY
// rule ignores that condition, and so refuses more.
//
// Start with [Table.For] in table.go, then rule.go.
package authorization
