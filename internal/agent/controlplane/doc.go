// Package controlplane resolves which servers of the control plane the agent connects to, how it
// verifies them and how it authenticates to them.
//
// It reads environment variables and ProxyConfig and returns gRPC connections.
//
// Invariants: roots, certificates and tokens are read from their files for each connection and each
// call, because all of them change while the agent runs. A token is sent over TLS only.
//
// Start with [Target] in target.go, then connect.go.
package controlplane
