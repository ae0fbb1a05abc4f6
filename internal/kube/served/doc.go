// Package served finds the version in which an API server serves a kind.
//
// Input: a kind with its versions, newest first (api.KindInfo), and the discovery API, which every
// client may read. Output: the resource with the first version that is served. An API server with
// older CustomResourceDefinitions lacks the newest ones: requests for them are answered as if the
// object did not exist.
//
// Invariants: answers are cached for ten seconds; it starts no goroutines.
//
// Start with [Versions.Resource].
package served
