// Package cloudfoundry reads the HTTP routes of Cloud Foundry from the NATS servers on which its
// route emitters and route registrars publish them.
//
// A [Platform] connects to NATS as a router does: it announces itself (router.start), answers
// router.greet, and receives router.register and router.unregister. Each registration is one
// instance of one or more routes, and is repeated until it is withdrawn. The output is one service
// per route.
//
//	NATS ── router.register, router.unregister ──> message.go ──> table.go ──> service.go
//	     <─ router.start, replies to router.greet ── platform.go
//
// Invariants: an unregistration is applied at once. A registration that is no longer repeated
// expires, but only while most others are: without a connection, or if emitters fail, nothing
// expires (table.go). The table of routes outlives connections.
//
// Start reading with [Platform.Watch] in platform.go.
package cloudfoundry
