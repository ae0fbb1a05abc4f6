// Package localmesh runs a mesh on one machine without Kubernetes: a control plane, and the user's
// own programs behind sidecars, each workload in a network namespace. It is pilotctl mesh and
// pilotctl run.
//
// # Inputs and outputs
//
// The input is a folder of manifests. Each Deployment in it names a program of this machine; the
// other objects (Services, ServiceEntries, VirtualServices, …) are those of any mesh. The output is
// a running mesh, its state in a directory, and a socket in that directory for commands.
//
//	pilotctl mesh up ──starts──> supervisor, in a sandbox (package netns)
//	                                 │ reads the manifests, again when they change
//	                                 ├── writes DIR/config: the user's objects, a WorkloadEntry of each
//	                                 │   workload that is ready ──> pilot-discovery, in a node
//	                                 ├── node of a workload: pilot-agent with Envoy, programs
//	                                 └── DIR/control.sock: pilotctl run, mesh exec, status, forward, down
//
// # Invariants
//
// A mistake in an object concerns only that object: it is a problem that mesh up and mesh status
// show, and the rest of the mesh runs. A workload is called only while its programs accept
// connections at all ports. All processes and namespaces end with the supervisor, also if it is
// killed; mesh down then removes the files.
//
// # Where to start reading
//
// supervisor.go (the parts of a running mesh), manifests.go and deployment.go (what is run),
// workload.go (one workload), launch.go (what mesh up and mesh down do).
package localmesh
