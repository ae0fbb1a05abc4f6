// Package history records the versions of config objects since the control plane started, for the
// read API.
//
// The input is each published snapshot ([Log.RecordSnapshot]); the output the versions of one
// object ([Log.Versions]) and the fields in which two of them differ ([Compare]). An object that
// has not changed takes no memory: its first recorded version is the one before its first change.
// Number and size of versions are limited, and the oldest are evicted first. Only objects that
// snapshots keep are recorded, so no Secret is.
//
// A Log may be used by several goroutines. Start with [Log] in log.go.
package history
