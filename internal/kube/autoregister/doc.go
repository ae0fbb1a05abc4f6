// Package autoregister creates WorkloadEntries for workloads outside Kubernetes that connect and
// name a WorkloadGroup.
//
// Inputs: proxies that connect and disconnect, and the health of their application as their agents
// report it. Output: WorkloadEntries, created from the group's template, in a [Store]: an API
// server, or memory without one.
//
// Invariants: an entry exists while its proxy is connected to any replica, and for a grace period
// afterwards. The entry's annotations name the replica to which the proxy is connected. A replica
// changes or deletes an entry only at the resource version that it has read, so a proxy that moves
// to another replica keeps its entry. A workload gets an entry only in the namespace and with the
// service account that it was authenticated as.
//
// For a workload that names an existing WorkloadEntry no entry is created; only its health
// condition is written.
//
// Each connected workload has a goroutine (workload.go) that reconciles its entry with the latest
// state and retries failures. Entries of replicas that are gone are found by the leader
// (cleanup.go).
//
// Start with [Registrar.Connect] in registrar.go.
package autoregister
