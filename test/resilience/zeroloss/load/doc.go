// Package load sends requests at a steady rate and remembers each that was lost.
//
// In: lanes, each a kind of request (package echo) with a rate. Out: a [Tally], by lane and by what was going on at the
// time, with the first failures in detail; and the newest replies, to wait for what a change makes of them.
// Law: what was sent is waited for and counted, once. Nothing is sent twice.
//
// Start reading at load.go.
package load
