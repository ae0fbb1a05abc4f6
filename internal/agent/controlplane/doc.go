// Package controlplane is how the agent reaches the servers of the control plane: which addresses, how it knows them, and how it
// proves who it is.
//
// In: environment variables and ProxyConfig. Out: gRPC connections.
// Law: roots, certificates and tokens are read anew for each connection and each call, for all of them change while the agent
// runs. A token is sent over TLS only.
//
// Start with [Target] in target.go, then connect.go.
package controlplane
