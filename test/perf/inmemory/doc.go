// Package inmemory is a control plane and its proxies in one process, without sockets: from objects
// to the bytes that would be written, and back with the acknowledgement.
//
// In: a workload.Mesh and its edits. Out: counts of translated and encoded resources, and the time
// of each response. Law: everything between the registries and the transport is the real thing,
// wired as internal/discovery does.
//
// Start with [New] in plane.go; client.go is a proxy.
package inmemory
