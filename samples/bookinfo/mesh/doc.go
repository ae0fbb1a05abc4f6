// Package mesh brings a mesh up on one machine: a control plane, and pods with an app and a sidecar
// each, every one of them in a network namespace of its own.
//
// In: Kubernetes manifests (the pods to run, the services to name), a directory of binaries, an
// Envoy. Out: a running [Mesh] with nodes to send requests from, rules to change ([Rules]), a
// control plane to stop and start ([ControlPlane]), and requests to measure it by ([Caller],
// [Load]).
//
// The manifests are all it knows about the application. Control planes and sidecars are started by
// package component, as those of pilotctl mesh. The program must be in a sandbox, see package netns.
//
//	10.66.0.2   control plane       reads the manifests and rules from <dir>/config
//	10.66.1.x   pods                as the manifests say
//	10.96.1.x   services            nobody's addresses: only capture and Envoy make them work
//
// Start reading at mesh.go.
package mesh
