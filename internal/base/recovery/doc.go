// Package recovery turns a panic into an error, a log line and a count, so that it costs one object, request or task and
// not the process.
//
// In: functions that may panic, and the object, proxy or request that they work on. Out: a [*Error] for the caller, a log
// entry with the stack, and one call of the counter behind the metrics pilot_total_xds_internal_errors and
// meshpilot_panics_total. Invariant: a panic is recovered only where the caller can show that its state is consistent
// afterwards; ADR 33 lists these places and how each of them keeps its state. Without a [Recorder] nothing is recovered, so
// a unit test that panics fails.
//
// Three forms, from the innermost to the outermost:
//
//   - [Recorder.Record] in a deferred function, for code that is called for each event or message;
//   - [Recorder.Call] around one function; [Call] with the Recorder of a context;
//   - [Loop] around the Run function of a long-running task: it is started again after a backoff.
//
// Package serve has the same for gRPC and HTTP servers. Start with [Recorder] in recorder.go.
package recovery
