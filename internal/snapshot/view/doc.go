// Package view is what one class of proxies sees of the mesh.
//
// In: a snapshot and what a proxy says of itself. Out: a [Key], equal for all proxies that are to be sent equal
// configuration, and the [View] of that Key: the services, rules and own ports that translation works from.
// Law: knows no connections. A Key holds only what changes output (resolved selectors, not labels), so that ten thousand
// alike sidecars share one View. What all Views of a namespace have in common is computed once (snapshot.Derived).
//
// Start with [KeyFor] in key.go and [Build] in view.go; scope.go is the outbound side, instances.go the inbound side,
// gateway.go what a gateway serves.
package view
