// Package faultproxy stands before a real API server and does to its answers what networks, load
// balancers and servers in distress do: it refuses, cuts, delays, repeats, and falsifies.
//
// In: a client's configuration. Out: one of a client that goes through. Law: on loopback, and gone
// with the test.
//
// Start with [New].
package faultproxy
