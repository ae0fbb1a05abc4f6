// Package fetch gets small documents over HTTP from addresses that users write: keys of token issuers, and the like.
//
// In: what may be reached and how much may come. Out: an http.Client. Law: an address is judged when it is dialled, after its
// name was resolved, so neither a redirect nor a name that changes its mind leads to where nobody may go: this machine, and
// what only answers to machines of a cloud or a link. Nothing is read without a bound.
//
// Start with [NewClient] in client.go.
package fetch
