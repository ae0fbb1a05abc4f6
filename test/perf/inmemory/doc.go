// Package inmemory is a control plane and its proxies in one process, without sockets: from objects to the bytes that would
// be written, and back with the acknowledgement.
//
// In: a workload.Mesh and its edits. Out: counts of what was translated and encoded, and who had which response when.
// Law: everything between the registries and the transport is the real thing, wired as internal/discovery does.
//
// Start with [New] in plane.go; client.go is a proxy.
package inmemory
