// Package kube turns the objects of one Kubernetes cluster into services, shards of endpoints and workloads.
//
// In: events about Service, EndpointSlice, Pod, Node and Namespace objects, ServiceExports and ServiceImports, and Settings. Out: one
// mesh.Service for each Service, one mesh.Shard for each EndpointSlice, one mesh.Workload for each Pod that has an address, and
// Problems.
// Law: pure and incremental. What is said is a function of the objects that there are, whatever order they came in, and
// an event costs what it touches: every object knows by index whom it concerns.
//
// Start with [Converter.Convert] in converter.go. Then service.go (and protocol.go, node_port.go), pod.go (and owner.go, topology.go),
// and slice.go, where both meet (and health.go). cluster_set.go is the Multi-Cluster Services API.
package kube
