// Package grpc makes configuration for gRPC applications without a proxy (node metadata GENERATOR "grpc").
//
// In: a View of such applications, and what the generators for Envoy make of it. Out: the same, reduced to what gRPC takes, under the
// names that Istio has for it:
//
//	listener  HOST:PORT                              a target xds:///HOST:PORT, leads to
//	route     outbound|PORT||HOST                    its RouteConfiguration, with one virtual host, leads to
//	cluster   outbound|PORT|SUBSET|HOST              the same names as Envoy's
//	listener  xds.istio.io/grpc/lds/inbound/IP:PORT  a server at that address
//
// Law: pure. Nothing is decided here that is decided for Envoy as well: clusters, endpoints, routes and policies are those that an
// Envoy in that place would get. What gRPC cannot do it must not do wrongly: a policy that it cannot express lets in fewer, and a
// cluster whose TLS it cannot speak is one that it refuses.
//
// Start with [Generator] in generator.go. What gRPC takes is said by its proposals A27 to A83, https://github.com/grpc/proposal.
package grpc
