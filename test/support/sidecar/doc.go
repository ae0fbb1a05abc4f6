// Package sidecar is a simulated sidecar: a proxy with one delta stream, which subscribes as Envoy
// does, acknowledges everything unless configured otherwise, keeps its resources, and records the
// responses.
//
// In: the address of a control plane's gRPC port, credentials where that is not the plain-text one,
// and a Node. Out: resources, and a record of responses. Law: it checks only the clusters passed to
// [Proxy.Keep]. Tests check everything else.
//
// Start with [Connect].
package sidecar
