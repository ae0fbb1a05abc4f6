// Package kubelet runs Pods without a container engine: a kubelet whose containers are
// processes of this machine.
//
// In: the Pods of a real API server, and a map of images to local programs ([image.Map]). Out:
// processes in network, mount, PID, UTS and IPC namespaces; the status of the Pods; one Node and
// its Lease; an address for each Service of type LoadBalancer; and the kubelet's own API for exec,
// port-forward and logs. Deployments, admission webhooks, init containers, native sidecars, probes
// and grace periods then work as on any cluster, at the cost of a process.
//
//	node.go        the Node, its Lease                     pod.go         a Pod from its sandbox to its removal
//	binding.go     Pods without a node get this one        sandbox.go     its namespaces, hosts, resolv.conf
//	network.go     a network namespace, a veth, routes     status.go      reports to the API server
//	balancer.go    LoadBalancer addresses                  container.go   a container and its restarts
//	server.go      exec, port-forward                      process.go     one run of it; see prepare.go and init.go
//	logs.go        logs                                    probe.go       startup, readiness, liveness; check.go asks
//	volumes.go     what Pods mount; token.go, files.go     environment.go variables; field.go
//	inputs.go      variables, arguments and files of a container that does not run
//
// # Law
//
// Nothing of the machine is named or changed: network namespaces have no names and are held by
// descriptors, mounts are made in private mount namespaces, and all processes die with this one. It
// must be started in the network and mount namespace of the node; package test/support/cluster
// does.
//
// # What it does not do
//
// Containers are isolated from each other, not the machine from them: they see its files (copy on
// write), and root is root. No limits of resources, no capabilities, no terminals, no CSI, no
// ephemeral containers; one node. Its API does not authenticate callers.
//
// Start with [Run] in kubelet.go, then pod.go.
package kubelet
