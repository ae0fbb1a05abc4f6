// Package nacos reads services from Nacos servers of version 2 and later, by the gRPC protocol of
// their clients.
//
// The inputs are the lists of services, the answers to subscriptions, and what the server pushes
// when a subscribed service changes. The outputs are adapter.Services: [Platform] is an
// adapter.Platform.
//
//	Nacos ── answers ──> connection.go ──> message.go ──> platform.go: subscriptions ──> Sink
//	      ── pushes ───>                                          |
//	                                                        service.go: conversion
//
// payload.go encodes the one Protobuf message of the protocol, whose body is JSON.
//
// Invariants: an error removes nothing. While a connection lives, what the server pushes applies at
// once. A server that restarts begins without the instances whose programs have not registered
// again, and Nacos has no mark for that: so after a reconnect, instances that are not listed are
// held for Settings.HoldTime (adapter.Sink.Synced).
//
// Start reading with [Platform.Watch] in platform.go.
package nacos
