// Package authenticate finds out who a caller is: for the certificate authority, for xDS and for the debug pages.
//
// In: a request with what came along: a TLS connection, headers, an address. Out: a [Caller] with one SPIFFE ID.
// Law: nobody is believed who has not proved it, and what cannot be checked counts as wrong. An authenticator reads only the
// credentials of its own kind; the first of a [Chain] that is satisfied decides. Credentials appear in no log and no error.
//
// Start with [Chain] in chain.go. certificate.go, kubernetes.go, oidc.go, forwarded.go and workload_token.go are the kinds of
// credentials; grpc.go and http.go make requests of what servers are given.
package authenticate
