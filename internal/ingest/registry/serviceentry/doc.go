// Package serviceentry converts ServiceEntries and WorkloadEntries to services, shards of endpoints
// and workloads.
//
// The inputs are events about both kinds, Namespaces and Settings. The outputs are, for a
// ServiceEntry, one mesh.Service per host and, if it lists its endpoints, one mesh.Shard per host;
// for a WorkloadEntry one mesh.Workload; and Problems for parts that are not used. Each object is
// converted independently of the others. The snapshot applies workloadSelectors and decides between
// several definitions of one host, because it has the data of all registries.
//
// Start reading with [Converter.Convert] in converter.go, then service.go, endpoint.go and
// workload.go. allocation.go decides which services need an allocated address, visibility.go which
// namespaces see them, and emit.go emits what changed.
package serviceentry
