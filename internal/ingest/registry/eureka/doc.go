// Package eureka reads services from Eureka servers, by their documented REST interface.
//
// The inputs are the answers to GET /apps, which lists all instances, and GET /apps/delta, which
// lists the changes of the last minutes. The outputs are adapter.Services: [Platform] is an
// adapter.Platform.
//
//	Eureka ── GET ──> client.go ── answers ──> parse.go ── instances ──> platform.go ──> Sink
//	                                                                        |
//	                                   table.go: which instances exist;  service.go: conversion
//
// Invariants: an error removes nothing. An instance is removed at once if the server lists it as
// deleted. A list that lacks it proves nothing, because a server that restarts begins without
// instances: the instance then stays for the duration of its lease, and longer while the server
// lists less than half of all instances (table.go).
//
// Start reading with [Platform.Watch] in platform.go.
package eureka
