// Package translate lists the generators of Envoy resources, one or more for each xDS type.
//
// The input is a View: what one class of proxies sees of a snapshot. The output is encoded
// resources, with the objects that they derive from. Generators are pure. They cache their output
// by its whole input, so proxies with equal input cost one translation, and a change costs only the
// affected resources.
//
// Start with table.go and envoy_generators.go. Each xDS type has a package: cluster, endpoint,
// listener, route, secret, nametable and proxyconfig; grpc derives the resources of applications
// without a proxy from these. Package memo is the cache. Package policy selects the part of a
// DestinationRule that applies to a cluster, and destination the cluster that a destination of a
// route names.
package translate
