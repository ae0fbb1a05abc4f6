// Package node says who the proxy is: the id, cluster, locality and metadata that Envoy tells the control plane.
//
// In: the environment, the effective ProxyConfig, labels and annotations of the pod, the addresses of the host.
// Out: a [Node], which the bootstrap carries and mesh.ParseNodeID and mesh.ParseNodeMetadata read back.
// Law: [Build] is pure; only addresses.go (interfaces) and nothing else here asks the system.
//
// Start with [Build] in node.go; downward.go reads the files of the downward API.
package node
