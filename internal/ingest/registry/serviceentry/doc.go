// Package serviceentry turns ServiceEntry and WorkloadEntry objects into services, shards of endpoints and workloads.
//
// In: events about both kinds, Namespaces and Settings. Out: for a ServiceEntry one mesh.Service per host and, where it
// lists its endpoints itself, one mesh.Shard per host; for a WorkloadEntry one mesh.Workload; Problems for what is not
// used as it was written.
// Law: pure, and each object by itself: which workloads a workloadSelector chooses, and which of several definitions of
// one host counts, is for the snapshot to say, where all registries meet.
//
// Start with [Converter.Convert] in converter.go, then service.go, endpoint.go and workload.go; allocation.go says who is to
// be given an address, visibility.go who may see it.
package serviceentry
