// Package status is the agent's HTTP port: whether the proxy is ready, its metrics with the application's, and the two ways to
// end it.
//
// In: Envoy's admin interface, the application's scrape target. Out: the handlers of port 15020. Law: asks Envoy anew for
// every probe, since a proxy that was ready may hang; logs readiness only when it changes.
//
// Start with [New] in server.go; readiness.go is what "ready" means, merge.go what Prometheus gets.
package status
