// Package sidecars tests modules in real sidecars of servers and clients: from web servers and
// registries, in the phases of policies, and while modules change under load. The mesh is in
// network namespaces; it is in mutual TLS.
//
// Start with TestSidecars in sidecars_test.go.
package sidecars
