// Package consul runs real Consul servers for tests.
//
// The input is [Options]. The output is a [Server], a process of the program github.com/hashicorp/consul
// that programs/consul pins and that is built into the user's cache once. A server listens on loopback
// addresses of its own, and ends with the test. It can be killed, paused, restarted with its data, and
// restarted without. A [Cluster] is several servers with one leader.
//
// Start with [Start] or [StartCluster].
package consul
