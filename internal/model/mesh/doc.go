// Package mesh defines the vocabulary of the control plane: Service, Port, Endpoint, Workload,
// Proxy, Locality and ClusterName, and the Event that describes a change of one of them.
//
// All types are plain values with content hashes, which are immutable after they are sealed. The
// package does not depend on Envoy protos or clients, and has no locks.
//
// Start reading with service.go and endpoint.go, then proxy.go (the description that a proxy sends
// of itself) and event.go.
package mesh
