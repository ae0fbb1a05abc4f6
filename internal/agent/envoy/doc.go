// Package envoy runs an Envoy process and talks to its admin interface.
//
// The inputs are a bootstrap file and an effective ProxyConfig. The outputs are an argument list, a
// [Process] and an [Admin] client.
//
// Invariants: the package never restarts a process. No process outlives the agent, even if that is
// killed.
//
// Start with [Start] in process.go, then args.go and admin.go.
package envoy
