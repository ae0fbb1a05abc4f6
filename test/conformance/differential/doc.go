// Package differential serves one corpus of configuration with this control plane and with Istio's
// istiod, and compares what both send to the same proxies.
//
// Resources are reduced to the properties that a client can observe (internal/diagnostics/compare): which
// clusters, endpoints, virtual hosts, routes, destinations, timeouts, retries and TLS modes there
// are, not how they are encoded. Each difference must be listed with its reason in
// differences_test.go, and each listed difference must occur.
//
// Start with differential_test.go; testdata/corpus is the configuration.
package differential
