// Package cli implements pilotctl, which shows the debug pages of a control plane at a terminal,
// and has commands to inject sidecars and to set up workloads.
//
// The input of most commands is the address of a control plane's HTTP port. The output is a table,
// or the page's data as JSON or YAML. Three command groups have other inputs: inject reads
// manifests, workload reads a mesh's authority or cluster, and log uses the ControlZ port.
//
// The commands that read debug pages have no side effects on the control plane. They need no
// Kubernetes and no rights except access to the port. Only log --level changes a control plane.
//
// Start reading with [New].
package cli
