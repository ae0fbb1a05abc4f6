// Package kube is the source that reads the objects of one Kubernetes API server.
//
// The inputs are lists and watches. The outputs are batches of events about objects, decoded like
// those from files and reduced to the fields that are used: first one batch with the current state
// and Synced, then changes. Stale data is preferred to wrong data. An object is deleted only if the
// API server reports its deletion by a watch or by a complete list, or if the definition of its
// kind is deleted. A failed list or watch deletes nothing; after it only the difference is sent.
// Changes do not queue up: while the receiver is busy they are merged into one batch.
//
// Start reading with [Source] in source.go. run.go is the goroutine that sends, store.go tracks the
// known and the sent objects, and kind_store.go is the store of one kind and its reflector.
// definition.go finds the installed custom kinds, and reflectors.go starts and stops the
// reflectors. list_watch.go creates lists and watches, protobuf.go decodes built-in kinds and raw.go
// custom ones, convert.go and trim.go convert objects, and health.go reports what cannot be read.
package kube
