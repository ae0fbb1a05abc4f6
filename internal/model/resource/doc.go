// Package resource is encoded xDS resources: one [Resource], immutable sorted [Set]s of them, and the [Diff] of two sets.
//
// In: Envoy protos and the keys of the objects they came from. Out: canonical bytes with a content hash, shared by all streams.
// Law: nothing here changes after it was made. Equal content gives equal bytes, in every replica and after every restart.
//
// Start with [Encode] in resource.go, then set.go.
package resource
