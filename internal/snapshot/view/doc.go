// Package view computes the part of a mesh snapshot that one class of proxies can see.
//
// The inputs are a snapshot and the description that a proxy sends of itself (mesh.Proxy). [KeyFor]
// reduces them to a [Key], and [Build] returns the [View] of a Key: the visible services, the rules
// for them and the proxy's own service ports. Generators in internal/translate read only Views.
//
// Proxies with equal Keys are sent equal configuration and share one View. A Key therefore holds
// only values that change the generated configuration: resolved selectors instead of labels, for
// instance. Ten thousand sidecars with equal Keys cost as much as one. Data that is equal for all
// Views of a namespace is computed once per snapshot and cached (snapshot.Derive). The package has
// no state and knows no connections.
//
// Start reading with KeyFor in key.go and Build in view.go. The outbound side is in scope.go, the
// inbound side in instances.go, and the servers of gateways are in gateway.go and gateway_merge.go.
package view
