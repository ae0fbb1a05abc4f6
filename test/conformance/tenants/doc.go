// Package tenants shows that one namespace cannot change another's configuration beyond what
// exportTo allows. It generates random configuration of two namespaces, all kinds, and compares the
// resources that the second namespace's proxies are sent with and without the first.
//
//	mesh_test.go      the two namespaces: what is fixed in them, and random objects of all kinds
//	xds_test.go       all resources of a proxy, secrets included, and how two sets of them differ
//	tenants_test.go   the comparisons
//
// Start with tenants_test.go.
package tenants
