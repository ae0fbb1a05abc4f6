// Package load sends requests at a steady rate and remembers each that was lost.
//
// In: lanes, each a kind of request (package echo) with a rate. Out: a [Tally], by lane and by the
// event of the time, with the first failures in detail; and the newest replies, to wait for the
// effect of a change. Law: pending replies are awaited and counted, once. Nothing is sent twice.
//
// Start reading at load.go.
package load
