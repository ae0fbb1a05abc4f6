// Package secret stores the secrets that the agent serves to Envoy by SDS: certificates with their
// keys, and roots to trust.
//
// Secrets come from callers ([Store.Set]) and from files on the proxy's disk ([Files]). The store
// returns the newest secret of each name and a channel that is closed on the next change.
//
// Invariant: a file that is missing, half written or invalid, or a key that does not match its
// certificate, never replaces the last good secret. The failure is logged and counted.
//
// Start with [Store] in store.go, then files.go.
package secret
