// Package leader has one replica of several do what must be done once.
//
// In: the name of a task and a function. Out: the function runs in the replica that holds the task's Lease
// (coordination.k8s.io), for as long as it does. Law: at most one replica runs it, as far as clocks run alike: a holder that cannot
// renew stops before others may take over, and one that shuts down gives the Lease back after its function has ended, not before.
// What must never happen twice is fenced besides, by resource versions, for a process that was paused does not know the time.
//
// Start with [Elections.Run].
package leader
