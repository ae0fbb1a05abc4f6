// Package cli implements pilotctl, which shows the state of a control plane at a terminal, and has
// commands to inject sidecars and to set up workloads.
//
// The input of most commands is the address of a control plane, whose read API and debug pages they
// read (ADR 41). The output is a table, or the data as JSON or YAML. Other command groups have
// other inputs: inject, analyze, validate, check-migration, test, translate and diff --from read
// manifests, workload reads a mesh's authority or cluster, log uses the ControlZ port,
// check-inject, tag, revision, create-remote-secret and dashboard use the cluster of a kubeconfig,
// flags named --envoy and --admin select the admin interface of an Envoy, and mesh and run use the
// mesh of this machine.
//
// The commands that read debug pages have no side effects on the control plane. They need no
// Kubernetes and no rights except access to the port. Only log --level, and request with a POST,
// change a control plane, proxy-config log with --level or --reset an Envoy, tag set, tag remove
// and create-remote-secret a cluster, and mesh and run this machine.
//
// Start reading with [New].
package cli
