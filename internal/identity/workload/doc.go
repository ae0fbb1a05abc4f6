// Package workload generates the files with which a workload outside Kubernetes joins the mesh,
// such as a virtual machine.
//
// Inputs: a WorkloadGroup and its mesh: an API server, or for a mesh without Kubernetes the
// directory of its authority. Output: the five files that istioctl generates (cluster.env,
// mesh.yaml, root-cert.pem, istio-token, hosts).
//
// Invariants: nothing in the mesh is changed. Tokens are signed by the API server for its
// authorized clients, or by the key in the authority's directory for users who can read it; no port
// of the control plane issues tokens.
//
// Start with [Configure] in configure.go; mesh.go is the interface to a mesh.
package workload
