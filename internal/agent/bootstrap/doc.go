// Package bootstrap makes the file that Envoy starts with.
//
// In: a [node.Node], the effective ProxyConfig and a few choices of the agent. Out: a typed Bootstrap, its bytes, a file.
// Law: [Build] is pure, and the same input gives the same bytes. Everything in the file is either the way to the control
// plane, or needed while there is none: who we are, admin, metrics, readiness, tracing.
//
// Goldens are in the testdata of package command, which has the inputs of a user; each is loaded by a real Envoy.
//
// Start with [Build] in bootstrap.go, which is a table of contents: there is a file for each part. file.go puts it on disk.
package bootstrap
