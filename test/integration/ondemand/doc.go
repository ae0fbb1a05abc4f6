// Package ondemand tests a sidecar that fetches the clusters of services when it first calls them
// (ADR 52): a client with MESHPILOT_ON_DEMAND and two servers with sidecars in network namespaces,
// in strict mutual TLS, with requests, raw connections, rules, and services that change.
//
// Start with TestOnDemand in ondemand_test.go; world_test.go is the mesh.
package ondemand
