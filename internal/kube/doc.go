// Package kube is the glue to a Kubernetes API server: how a client is made, and nothing that knows what its objects mean.
//
// In: a kubeconfig, or the service account of the pod. Out: clients. Law: it holds no objects and starts no goroutine; rooms
// that watch, write or elect do so with what they are given here.
//
// Start with [NewClient] in client.go.
package kube
