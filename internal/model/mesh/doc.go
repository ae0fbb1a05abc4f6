// Package mesh is the vocabulary: Service, Port, Endpoint, Workload, Proxy, Locality, ClusterName, and the Event that says
// that one of them changed.
//
// In: nothing. Out: plain immutable values with content hashes. Law: knows no Envoy protos, no clients and no locks.
//
// Start with service.go and endpoint.go, then proxy.go (what a proxy says of itself) and event.go.
package mesh
