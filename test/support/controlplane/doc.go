// Package controlplane runs a control plane in the test's process, with real listeners on loopback
// addresses of its own.
//
// In: [Options], which the test changes. Out: a [Plane] until the test ends, its addresses, pages
// and log. A control plane that ends with an error fails the test, and the log is shown when the
// test has failed. Law: it decides nothing that a test may be about: that is for the test to set in
// the Options.
//
// If the control plane must be a program of its own, see test/support/gatewayenv. The tests inside
// of internal/discovery cannot import this package, and start theirs themselves.
//
// Start with [Start].
package controlplane
