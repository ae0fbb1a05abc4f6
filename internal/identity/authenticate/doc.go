// Package authenticate identifies the callers of the certificate authority, of xDS and of the debug
// pages.
//
// Inputs: a [Request] with the TLS connection, headers and peer address of a call. Output: a
// [Caller] with one SPIFFE ID, or an error.
//
// Invariants: a caller without valid credentials is rejected, and so is one whose credentials
// cannot be checked. Each authenticator reads only its own kind of credentials; the first member of
// a [Chain] that succeeds identifies the caller. Credentials appear in no log and no error.
//
// Start with [Chain] in chain.go. certificate.go, kubernetes.go, oidc.go, xfcc.go and
// workload_token.go implement the kinds of credentials; grpc.go and http.go build a Request from
// gRPC and HTTP calls.
package authenticate
