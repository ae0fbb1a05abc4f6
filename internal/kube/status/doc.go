// Package status writes the state of Istio's objects into their status.
//
// Inputs: the objects that this replica has applied ([AppliedObjects]), the problems of objects,
// and the acknowledgements of proxies. Outputs: the condition Reconciled of each object, with its
// generation, and validation messages; the addresses of ServiceEntries and Ingresses; and, from
// replicas that do not lead, reports about their own proxies.
//
// Invariants: one replica, the leader, writes. Each write names the resource version that it was
// computed from, so if two replicas believe to lead, one write is refused. A status that is up to
// date is not written again. Only the package's own fields are changed: other conditions and
// unknown fields stay. Conditions are computed from the current state and not from events, so a new
// leader continues where the previous one stopped.
//
// # The condition
//
//	True     applied, and acknowledged by all proxies concerned
//	Unknown  applied, but some proxies have not acknowledged it yet ("3/5 proxies up to date.")
//	False    not or only partly applied, or rejected by proxies. The message names the field.
//
// Once True, a condition is not written again when proxies connect or disconnect: that would be a
// write per object and pod.
//
// # Several replicas
//
// Each replica counts its own proxies. Replicas that do not lead write their counts of recently
// changed objects into a ConfigMap, and the leader adds them (report.go).
//
// Start with [Writer.Run] in writer.go. evaluator.go decides which conditions to write,
// write_loop.go writes them, and condition.go formats one condition.
package status
