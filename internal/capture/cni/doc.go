// Package cni implements the CNI plugin istio-cni. It captures the traffic of a pod when the pod's
// network is set up, so that the pod needs no privileged init container.
//
// The container runtime calls the plugin with [skel.CmdArgs]: the network configuration, the pod's
// name and a network namespace. The plugin reads the Pod from the API server, derives
// [iptables.Options], applies the rules of internal/capture/iptables in that namespace, and returns
// the previous plugin's result unchanged. It is a chained plugin of the CNI specification 1.1.
//
// Invariants: the rules are the same as the init container's for equal annotations and variables.
// If capturing a pod fails, the call fails, so that the pod does not start. Pods that are not to be
// captured are not affected. Only results are written to standard output, which belongs to the
// protocol.
//
// Of the sub-packages, install puts the plugin onto a node and removes it, and repair handles pods
// that started before the plugin was installed.
//
// Start with plugin.go, then pod.go and options.go.
package cni
