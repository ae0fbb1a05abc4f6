// Package compat runs our programs together with Istio's, as meshes do that move from one to the
// other: Istio's pilot-agent with our control plane, our agent with istiod, istioctl with our
// control plane; and xDS clients that are no proxies.
//
// Istio's programs are built from the Go module in programs/istio, at one pinned version, into the
// user's cache. That takes minutes, so these tests are run by `make compat` alone:
//
//	make compat
//
// Without it they are skipped. client_test.go needs nothing of Istio's, and always runs.
//
// Start with peers_test.go; sidecar_test.go has the cluster with Istio's agent and istioctl,
// istiod_test.go our agent with istiod.
package compat
