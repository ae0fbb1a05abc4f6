// Package kube creates clients for a Kubernetes API server, without knowledge of any kind of
// object.
//
// Input: a kubeconfig or the pod's service account. Output: clients that share connections and a
// rate limit.
//
// Invariants: it caches no objects and starts no goroutines. The packages below it watch, write and
// elect leaders with these clients.
//
// Start with [NewClient] in client.go.
package kube
