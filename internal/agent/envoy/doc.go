// Package envoy runs one Envoy process: its argument list, its life and end, and its admin interface.
//
// In: a bootstrap file and an effective ProxyConfig. Out: a [Process] that ends with the agent, and an [Admin] to ask.
// Law: one process at most, never restarted: when Envoy ends the agent ends with its status, and whoever started the
// agent decides what comes next. No process outlives the agent, however the agent dies.
//
// Start with [Start] in process.go, then args.go and admin.go.
package envoy
