// Package listener makes the listeners of sidecars.
//
// In: a View. Out: Listener resources, encoded. Law: pure; nothing volatile (a version, a time) is in any listener, for a
// change outside filter chains drains all of a listener's connections.
//
// It works in two steps. outbound*.go and inbound.go plan: they turn services and rules into [Spec] values, plain data that
// prints well and is compared in tests. build*.go then turn one Spec into one Envoy listener, remembered by the Spec's text.
// Routes are never inside outbound listeners: they come by RDS under the name that the Spec has.
//
// Start with [Generator] in generator.go, then spec.go. The HTTP filters and their order are one list in filters.go.
package listener
