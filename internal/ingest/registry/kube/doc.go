// Package kube converts the objects of one Kubernetes cluster to services, shards of endpoints and
// workloads.
//
// The inputs are events about Services, EndpointSlices, Pods, Nodes, Namespaces, ServiceExports and
// ServiceImports, and Settings. The outputs are one mesh.Service per Service, one mesh.Shard per
// EndpointSlice, one mesh.Workload per Pod with an address, and Problems. The result depends only
// on the set of objects. An event costs only what it affects, because indexes map each object to
// its dependents.
//
// Start reading with [Converter.Convert] in converter.go. Then read service.go (with protocol.go
// and node_port.go), pod.go (with owner.go and topology.go), and slice.go, which joins both (with
// health.go). emit.go emits what changed. cluster_set.go implements the Multi-Cluster Services API.
package kube
