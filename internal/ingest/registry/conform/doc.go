// Package conform is the test suite that every registry must pass.
//
// The input is a [Fixture], which starts the registry and lists objects for it. The suite checks
// what registry.Converter and registry.Registry promise: sync, upserts, deletes, renames, repeated
// deletes and upserts, the same result for every order and history of events, the same result after
// a restart, the last good state on errors, no events if nothing changed, and services of 10,000
// instances. It knows no particular registry.
//
// Start reading with [Run] in suite.go. [State] applies events and checks each of them.
package conform
