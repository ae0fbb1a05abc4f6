// Package fleet plays many sidecars at once over real gRPC.
//
// In: the nodes of a mesh and the address of a control plane. Out: traffic from the control plane,
// when each proxy was in sync, and when it had each change.
//
// A proxy behaves like Envoy behind pilot-agent: a TCP connection of its own; CDS first, EDS for
// the clusters that want it, LDS once all clusters have endpoints, then RDS for the names in the
// connection managers and ECDS for those of filters with config_discovery. Every response is
// acknowledged with its nonce (and version in SotW). In SotW a change of clusters requests EDS
// again, as Envoy does to warm them. On reconnecting a proxy requests all types at once, in delta
// with initial_resource_versions. A stream that ends or is refused is opened again, on a new
// connection to a random address, after a random part of an interval: at first 500 ms, doubled
// while there is no response. Not simulated: SDS, NDS and the ProxyConfig watch.
//
// Law: the fleet is cheap. A resource is parsed once for all proxies and known by its hash from
// then on; a proxy stores one small number for each resource.
//
// Start with [Fleet] in fleet.go; round.go connects and disconnects proxies, proxy.go is
// one of them, handle.go processes a response.
package fleet
