// Package grpc generates configuration for gRPC applications without a proxy (node metadata
// GENERATOR "grpc").
//
// The inputs are a View of such applications, and the resources that the generators for Envoy
// return for it. The outputs are these resources, reduced to what gRPC supports, under the names
// that Istio uses:
//
//	listener  HOST:PORT                              a target xds:///HOST:PORT; references
//	route     outbound|PORT||HOST                    its RouteConfiguration with one virtual host; references
//	cluster   outbound|PORT|SUBSET|HOST              the same names as Envoy's
//	listener  xds.istio.io/grpc/lds/inbound/IP:PORT  a server at that address
//
// An Envoy in the same place would receive the same clusters, endpoints, routes and policies; this
// package makes no decisions of its own. What gRPC does not support fails safely: a policy that it
// cannot express allows fewer calls, and gRPC refuses a cluster with TLS that it does not support.
//
// Start with [Generator] in generator.go. What gRPC supports is defined by its proposals A27 to
// A83, https://github.com/grpc/proposal.
package grpc
