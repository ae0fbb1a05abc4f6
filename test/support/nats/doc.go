// Package nats runs a real NATS server for tests.
//
// The input is [Options]. The output is a [Server], a process of the program
// github.com/nats-io/nats-server that programs/nats pins and that is built into the user's cache once,
// in less than a minute. A server listens on a loopback address of its own, and ends with the test. It
// can be killed, paused and started again with the same address. It stores nothing.
//
// Start with [Start].
package nats
