// Package node builds the xDS node of the proxy: the ID, cluster, locality and metadata that Envoy
// sends to the control plane.
//
// The inputs are the environment, the effective ProxyConfig, the pod's labels and annotations and
// the host's addresses. The output is a [Node] for the bootstrap, which the control plane parses by
// mesh.ParseNodeID and mesh.ParseNodeMetadata.
//
// Invariant: [Build] is pure. Only HostInterfaces and ReadDownwardFile access the system.
//
// Start with [Build] in node.go. downward.go reads the files of the downward API.
package node
