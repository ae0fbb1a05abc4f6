// Package status writes into each object of Istio's what has become of it.
//
// In: what this replica has in use ([Book]), what is wrong with objects, and who has acknowledged what they shape. Out: the condition
// Reconciled of each object, with its generation, and validation messages; the addresses of ServiceEntries and Ingresses; and,
// from replicas that do not lead, reports of their own proxies.
//
// Law: one replica writes, the leader. A write says which resource version it was worked out from, so that of two who believe to
// lead one is refused; nothing is written that is there already; and of a status only what is ours is touched: a condition of
// another type, or a field that is unknown here, stays as others wrote it. What is true of an object is worked out from
// what there is now, never from what happened, so that a new leader goes on where the old one stopped.
//
// # The condition
//
//	True     in use, and all proxies that it concerns have acknowledged it
//	Unknown  in use, and some proxies have not acknowledged it yet ("3/5 proxies up to date.")
//	False    not in use, or not all of it; or proxies refuse what it shapes. The message names the field.
//
// Once True, a condition is not written again because proxies come and go: that would be a write for each object and pod.
//
// # Several replicas
//
// Each replica counts its own proxies. Those that do not lead write what they counted into a ConfigMap, only of objects that
// changed of late, and the leader adds it up (report.go).
//
// Start with [Writer.Run] in writer.go; condition.go says what an object is told.
package status
