// Package fetch fetches small documents over HTTP from URLs that users write, such as the keys of
// token issuers.
//
// [NewClient] returns an http.Client with limits on addresses, size and time.
//
// Invariants: an address is checked when it is dialed, after name resolution, so neither a redirect
// nor DNS rebinding reaches forbidden addresses: this host, link-local addresses and metadata
// servers of clouds. Nothing is read without a limit.
//
// Start with [NewClient] in client.go.
package fetch
