// Package zookeeper tests the ZooKeeper registry with a real ZooKeeper server: what it reads while
// instances change, and what stays in use while the server is down, hangs, has lost its data, was restored
// from a snapshot, or refuses the user. Start with TestChanges.
package zookeeper
