// Package serving has functions for tests of servers: addresses at which they may listen
// ([FreeAddress]), a log that may be read while it is written ([Log]), waiting for a condition
// ([Eventually], [Until]), and requests of pages ([Page]).
//
// In: checks and URLs. Out: their result, or the end of the test. Law: every wait has a bound,
// which the test sets, and ends with the last error. It imports nothing of ours, so that the tests
// inside of any package may use it.
//
// Start with [Eventually].
package serving
