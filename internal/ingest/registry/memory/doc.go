// Package memory is a registry that says what it is told: for tests, and for services that no platform has.
//
// In: calls of Set and Delete. Out: batches of events, first all that is there, then Synced, then changes.
// Law: as registry.Registry. However fast it is changed, a slow reader gets the newest state and not every step to it.
//
// All of it is in [Registry].
package memory
