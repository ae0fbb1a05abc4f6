// Package workload makes the files with which a workload outside Kubernetes joins the mesh: a virtual machine, or a process on a
// laptop.
//
// In: a WorkloadGroup, and the mesh that it is of: an API server, or a directory with the authority of a mesh without one. Out: the
// five files that istioctl makes (cluster.env, mesh.yaml, root-cert.pem, istio-token, hosts). Law: nothing is changed in the mesh.
// A token is signed by who may sign one anyway: the API server for those whom it lets, and without it whoever may read the key
// in the authority's directory; no port of the control plane gives identities away.
//
// Start with [Configure] in configure.go; mesh.go says what is asked of a mesh.
package workload
