// Package apiserver runs a whole control plane against a real API server, with proxies connected to it, and injects what
// befalls API servers: it is stopped, its watches end, rights are lost, definitions of kinds are removed, its list is suddenly
// empty.
//
// In: Services, pods, EndpointSlices and rules, written to the API server. Out: what a proxy is sent.
// Law: in no fault does a proxy lose an endpoint that exists, /ready stays up, and what is sent afterwards is the difference.
package apiserver
