// Package status serves the agent's HTTP port: readiness of the proxy, its metrics merged with the
// application's, and two ways to end it.
//
// The inputs are Envoy's admin interface and the application's metrics endpoint. The outputs are
// the handlers of port 15020.
//
// Invariants: probes query an Envoy until it is ready, and not again. The kubelet's probe passes
// through Envoy, which proves that it serves. Readiness is logged only when it changes.
//
// Start with [New] in server.go. readiness.go defines "ready", merge.go merges metrics, labels.go
// expands Istio's labels.
package status
