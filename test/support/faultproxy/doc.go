// Package faultproxy is a proxy of a real API server that changes its answers as networks, load
// balancers and failing servers do: it refuses, cuts, delays, repeats, and falsifies them.
//
// In: a client's configuration. Out: one of a client of the proxy. Law: it listens on loopback, and
// ends with the test.
//
// Start with [New].
package faultproxy
