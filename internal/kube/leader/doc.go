// Package leader runs a task in one of several replicas, by leader election.
//
// Input: the name of a task and a function. Output: the function runs in the replica that holds the
// task's Lease (coordination.k8s.io), for as long as it holds it.
//
// Invariants: as far as clocks run at the same speed, at most one replica runs a task. A holder
// that cannot renew its Lease stops before others may acquire it, and on shutdown it releases the
// Lease only after its function has returned. Writes that must never happen twice are also fenced
// by resource versions, because a paused process does not notice that its Lease expired.
//
// Start with [Elections.Run] in leader.go.
package leader
