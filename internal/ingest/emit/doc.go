// Package emit sends only differences: it compares what a source or registry knows now with what it
// has sent.
//
// The inputs are the present values of keys, or the present Problems of scopes. The outputs are the
// changes to the values before, in the order of the calls:
//
//	e.Set("a", 1)  -> a is new
//	e.Set("a", 1)  -> nothing
//	e.Delete("a")  -> a is deleted
//	e.Delete("a")  -> nothing
//
// Invariant: the sum of all changes is the present state.
//
// Start with [Emitter]. [ProblemEmitter] does the same for Problems, and returns events. Stores whose
// batch may not be taken by the receiver, or that keep hashes instead of values, compare by
// themselves (ingest/source/file, ingest/source/kube).
package emit
