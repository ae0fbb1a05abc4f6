// Package bootstrap builds the configuration file with which Envoy starts.
//
// The inputs are a [node.Node], the effective ProxyConfig and settings of the agent. The outputs
// are a typed Bootstrap, its JSON and the file. BuildGRPC does the same for proxyless gRPC.
//
// Invariants: [Build] is pure, and its output deterministic. The bootstrap holds only what Envoy
// needs to reach the control plane, or while it has no configuration: node, admin, metrics,
// readiness, tracing.
//
// Goldens are in the testdata of package command, which has the user's inputs; a real Envoy loads
// each of them.
//
// Start with [Build] in bootstrap.go. Each part of the bootstrap has its own file; file.go writes
// it to disk.
package bootstrap
