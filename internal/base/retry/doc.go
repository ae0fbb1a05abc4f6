// Package retry decides when and at which address an attempt that failed is repeated.
//
// [NewBackoff] computes the delays, with a backoff of cenkalti/backoff, from the first and the
// longest one. The caller waits itself, because it usually waits for something else too.
// [Addresses] chooses among the replicas of a server.
//
// A queue of client-go, a reflector and a gRPC connection have backoffs of their own, which are
// configured where they are created.
package retry
