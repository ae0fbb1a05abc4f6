// Package staticconfig writes the configuration of a proxy as one bootstrap that Envoy loads
// without a control plane.
//
// The inputs are all resources of a proxy. The output is a bootstrap in which endpoints are part of
// their clusters, and routes and extensions part of their listeners. Secrets are not included: they
// are requested from the agent of the proxy, at its socket.
//
// Start reading with [Build].
package staticconfig
