// Package resource defines encoded xDS resources: a [Resource], immutable sorted [Set]s of them,
// and the [Diff] of two sets.
//
// The inputs are Envoy protos and the keys of the objects that they were generated from. The
// outputs are canonical bytes with a content hash, which all streams share. All values are
// immutable. Equal content has equal bytes and hashes in every replica and after every restart.
//
// Resources up to 8 KiB are stored as they are sent in delta, with name, version and body in one
// buffer ([Resource.Element]). So a response with many resources is copied in fewer pieces.
//
// Start reading with [Encode] in resource.go, then set.go.
package resource
