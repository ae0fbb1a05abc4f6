// Package autoregister gives workloads outside of Kubernetes, which connect and name a WorkloadGroup, a WorkloadEntry.
//
// In: proxies that come and go, and what their agents say of the applications' health. Out: WorkloadEntries, made from their
// group's template, in a [Store]: an API server, or memory where there is none. Law: an entry is there as long as its proxy is
// connected to some replica, and for a grace period after. Which replica has the proxy is in the entry's annotations, and a
// replica changes or removes only what is as it knows it (resource versions): a proxy that moves to another replica keeps its
// entry. A workload gets an entry only in the namespace, and with the service account, that it was authenticated as.
//
// A workload that names a WorkloadEntry of its own, made by somebody else, gets no other one; only its health is kept.
//
// Each workload that is connected has a goroutine (workload.go), which does what is still to do, and tries again; nothing
// that happened in between is done late. What a replica left that is gone is found by the leader (sweep.go).
//
// Start with [Registrar.Connect] in registrar.go.
package autoregister
