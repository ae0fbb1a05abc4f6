// Package connectivity computes from a snapshot which workloads can call which services, and how.
//
// The input is a [snapshot.Snapshot]; proxies need not be connected. [New] groups its workloads,
// and determines for each group the proxy that it would have and the View of that proxy. From these
// follow the modes of mutual TLS with the callers in plain text ([Mesh.PlainTextCalls]), and who
// may call a service ([Mesh.Callers]): each call is evaluated by package explain, with the inbound
// configuration that the control plane generates for the workloads that serve it. [Mesh.Callees] is
// the other direction: the services in the scope of these workloads. [Mesh.Topology] is the calls
// between all services that objects name; it evaluates identities in policies but no requests.
//
// Nothing here knows live traffic: a call is what configuration lets a workload do. Results depend
// on the snapshot alone, so they can be cached by it, and are sorted.
//
// Start with [New] in workloads.go.
package connectivity
