// Package workload makes the mesh that a control plane is measured with: its configuration, its
// proxies, and changes to it.
//
// In: [Params]. Out: Istio objects as YAML files or protobufs, the node of each proxy, and changed
// objects that carry a [Mark]: a unique number that can be found in the xDS bytes of each proxy
// that received the change. Law: the same Params yield the same bytes.
//
// Start with [New] in mesh.go, then change.go.
package workload
