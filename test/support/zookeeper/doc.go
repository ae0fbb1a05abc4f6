// Package zookeeper runs real ZooKeeper servers for tests.
//
// The input is [Options]. The output is a [Server], a process of Apache ZooKeeper whose version
// programs/zookeeper pins. Maven copies its jars into the user's cache once. A server listens on
// loopback addresses of its own and ends with the test. It can be killed, paused, restarted with its
// data, and restarted without.
//
// Start with [Start].
package zookeeper
