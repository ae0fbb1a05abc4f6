// Package pilotctl runs pilotctl as a user does, on a real API server with a control plane of two
// replicas: it reaches every pod by port-forward, and waits for the proxies of all.
//
// The replicas run in the test's process. The node of their pods is served by the kubelet's own
// streaming code, which connects port-forwards with them.
//
// Start with lab_test.go, then access_test.go.
package pilotctl
