// Package retry computes the delays between attempts that fail.
//
// Inputs: the first and the longest delay. Output: the delays, from a backoff of
// cenkalti/backoff. The caller waits itself, because it usually waits for something else too.
//
// A queue of client-go, a reflector and a gRPC connection have backoffs of their own, which are
// configured where they are created.
package retry
