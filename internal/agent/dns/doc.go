// Package dns is the DNS proxy beside an application: it resolves the hosts of the mesh itself and
// forwards all other queries to upstream servers.
//
// The inputs are the control plane's name table, resolv.conf, and queries over UDP and TCP.
//
// Invariants: queries for hosts of the mesh are never forwarded, except for record types other than
// addresses. They never result in NXDOMAIN; a missing address family is an empty answer. Memory is
// bounded whatever clients send: the cache, forwarded queries and their size have limits.
//
// Start with [Server] in server.go, then table.go (hosts of the mesh), upstream.go and cache.go
// (all others).
package dns
