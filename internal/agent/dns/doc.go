// Package dns is the DNS proxy beside an application: it answers for the hosts of the mesh, and asks the usual servers for the
// rest.
//
// In: the name table of the control plane, resolv.conf, and queries over UDP and TCP. Out: answers.
// Law: what the mesh knows is answered here and never asked for elsewhere: an address, or word that there is none of that
// family, but not that there is no such name. Nothing that a query brings makes the proxy grow: caches, queries under way
// and what is read have bounds.
//
// Start with [Server] in server.go, then table.go (what is known), upstream.go and cache.go (what is not).
package dns
