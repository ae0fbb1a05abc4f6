// Package envoy loads generated configuration into the real Envoy, in its validate mode, and runs
// Envoys for tests.
//
// In: clusters, assignments, listeners and route configurations, as a control plane would send
// them. Out: a test that fails with Envoy's own words if it would not take them. Or in: a
// bootstrap. Out: an Envoy that runs and is ready, until the test ends.
//
// Validate mode reads only the static bootstrap: it neither asks for nor checks what would come
// over xDS. [Config] therefore combines everything in one bootstrap: assignments become static
// clusters, route configurations get a listener each, and certificate files that are named are
// replaced by some that exist. It opens no port; a [Process] has the extensions of its bootstrap.
//
// Like other test support this package reads the environment itself: ENVOY (path of the binary),
// XDG_CACHE_HOME and CI.
//
// Start with [Config] in config.go and [Validate] in validate.go, or with [Start] in process.go.
package envoy
