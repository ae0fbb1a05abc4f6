// Package mesh puts meshpilot on a test cluster, as a user would: the images that its manifests
// name, and its charts.
//
// In: a cluster with a node, and this checkout. Out: a control plane, and perhaps a gateway, that
// run there; Bookinfo can be applied.
//
// Start with [Images] and [Install].
package mesh
