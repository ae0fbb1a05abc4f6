// Package secret keeps what Envoy may ask the agent for by SDS: certificates with their keys, and roots to trust.
//
// In: secrets that somebody sets ([Store.Set]), and files of the proxy's disk ([Files]). Out: the newest of each name, and
// word of changes.
// Law: the last good secret stays. A file that is gone, half written, or that does not fit to its key changes nothing.
//
// Start with [Store] in store.go, then files.go.
package secret
