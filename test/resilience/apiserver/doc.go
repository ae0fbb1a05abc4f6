// Package apiserver runs a whole control plane against a real API server, with proxies connected to
// it, and injects what befalls API servers: it is stopped, its watches end, rights are lost,
// definitions of kinds are removed, its list is suddenly empty.
//
// In: Services, pods, EndpointSlices and rules, written to the API server. Out: the resources that
// a proxy is sent. Law: in no fault does a proxy lose an endpoint that exists, /ready stays up, and
// only the difference is sent afterwards.
package apiserver
