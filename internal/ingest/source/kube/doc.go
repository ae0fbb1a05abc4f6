// Package kube is the source that follows the objects of one Kubernetes API server.
//
// In: lists and watches. Out: batches of events about objects, typed as internal/model/config/decode makes them of files and cut
// down to what is read of them: first one batch with everything that is there and Synced, then what changes.
// Law: stale beats wrong. An object goes only when the API server says that it is gone: by a watch, by a list that was read
// to its end, or because the definition of its kind was deleted. A list or watch that fails, whatever the reason, takes
// nothing away; after it the difference is sent, and only that. Nothing queues up: what changes while nobody takes batches
// becomes one.
//
// Start with [Source] in source.go. run.go is the one goroutine that sends, store.go what is known and what was sent of it,
// shard.go one kind's part of that and the end of a client-go reflector; definition.go finds out which custom kinds there are
// and follow.go starts and stops the reflectors; reach.go and raw.go are how lists and watches are made, convert.go and trim.go
// what becomes of an object; health.go says what cannot be read.
package kube
