// Package connect reaches the replicas of a control plane, for pilotctl.
//
// The input is [Options]: addresses of HTTP ports, the address of an xDS port, or a kubeconfig. The
// output is a [ControlPlane] with one [Replica] for each address or istiod pod, which answers HTTP
// requests for its debug pages and its read API. A pod is reached by a port-forward of its own, so
// that it takes the caller for one of its own machine: access to the pods' port-forward permission
// is access to the control plane. Over xDS only GET requests are served, and no streams of events.
//
// Invariants: nothing is sent before the first request, except to find the pods; a replica that
// cannot be reached is an error of its requests only.
//
// Start reading with [Open].
package connect
