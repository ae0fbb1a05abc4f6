// Package recovery converts a panic to an error, a log entry and a count, so that it affects one
// object, request or task instead of the process.
//
// A [Recorder] runs functions that may panic and knows the object, proxy or request that they work
// on. It returns an [*Error], logs the stack, and counts the panic for the metrics
// pilot_total_xds_internal_errors and meshpilot_panics_total.
//
// Invariant: a panic is recovered only where the caller can show that its state is consistent
// afterwards; ADR 33 lists these places. Without a [Recorder] nothing is recovered, so a unit test
// that panics fails.
//
// Three forms, from the innermost to the outermost:
//
//   - [Recorder.Record] in a deferred function, for code that is called for each event or message;
//   - [Recorder.Call] around one function; [Call] with the Recorder of a context;
//   - [Loop] around the Run function of a long-running task: it is started again after a backoff.
//
// Package serve has the same for gRPC and HTTP servers. Start with [Recorder] in recorder.go.
package recovery
