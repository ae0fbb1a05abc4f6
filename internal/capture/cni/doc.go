// Package cni is the CNI plugin istio-cni: it captures the traffic of a pod when the pod's network is made, so that the pod needs
// no init container with the right to do so.
//
// In -> out: what the container runtime calls the plugin with ([skel.CmdArgs]: the network configuration, the pod's name, a
// network namespace) -> the Pod, read from the API server -> [iptables.Options] -> the rules of internal/capture/iptables in that
// namespace, and the result of the plugin before it, unchanged. It is a chained plugin by the CNI specification 1.1.
//
// Law: the rules are those that the init container would have made of the same annotations and variables. A pod that is to be
// captured and cannot be is an error, and so does not start; whom the plugin does not concern it lets pass. Nothing is printed
// but results: the standard output belongs to the protocol.
//
// Of the sub-rooms, install puts the plugin onto a node and takes it away again, and repair deals with pods that were faster.
//
// Start reading at plugin.go, then pod.go and options.go.
package cni
