// Package conform is the one test suite that every registry passes.
//
// In: a [Fixture], which says how to start the registry and which objects to show it. Out: passed or failed tests.
// Law: knows no registry. What it asks of one is what registry.Converter and registry.Registry promise: sync, upsert,
// delete, rename, flap, the same end for every order and history, the same again after a restart, the last good state on
// errors, and silence where nothing changed.
//
// Start with [Run] in suite.go; [State] folds events into what they say in the end, and checks each of them.
package conform
