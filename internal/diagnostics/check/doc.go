// Package check finds out whether a mesh is healthy, for pilotctl check, and whether a virtual
// machine can be part of it, for pilotctl workload doctor.
//
// The input is a [Target]: clients of the cluster, and requests to the replicas of the control
// plane and to ports of pods. The output is a list of [Result]: one line per check, in categories,
// with what was found and a hint. A check that depends on a failed one is skipped.
//
// Invariants: nothing is changed. Webhooks are tested by requests with dryRun, which the API
// server itself sends to them. A check that the user has no permission for is skipped, not failed.
//
// Start reading with [Run], then the tables of checks in table.go and machine.go.
package check
