// Package zookeeper reads services from ZooKeeper, in the layouts of Dubbo and of Spring Cloud.
//
// The inputs are the nodes /dubbo/INTERFACE/providers/URL (Dubbo's registration of interfaces) and
// /services/NAME/ID with the JSON of curator-x-discovery (Dubbo's registration of applications, and
// Spring Cloud). The outputs are adapter.Services: [Platform] is an adapter.Platform.
//
//	ZooKeeper ── watches ──> queue.go ── changed paths ──> reader.go ── nodes ──> session.go ──> Sink
//	                                                                                 |
//	                                          tree.go: which instances exist;  service.go: conversion
//
// Each list of services and of instances has one watch, and each instance with content another one.
// A change costs one read of the list that changed, and one for each new instance.
//
// Invariants: an error, the loss of a session, and servers that lost their data never remove an
// instance. Within a session, a missing node was deleted. A new session shows by the identity and
// the transaction numbers of nodes whether it reads the same data as the one before (tree.go, ADR
// 40).
//
// Start reading with [Platform.Watch] in session.go.
package zookeeper
