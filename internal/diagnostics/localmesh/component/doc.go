// Package component starts the processes of a mesh in network namespaces: the control plane, and
// the sidecar beside an application.
//
// The inputs are nodes of package netns, the paths of the programs, and the identity of each
// workload. The outputs are running processes that are ready.
//
// Invariants: flags and environment variables of pilot-discovery, pilot-agent and istio-iptables
// are known here and nowhere else among the users of this package, which are pilotctl mesh and the
// demo. As root a sidecar runs as the user 1337, whose traffic is not captured. In a user namespace
// there is no such user, and the sockets of Envoy and its agent have a mark instead.
//
// Start reading at sidecar.go.
package component
