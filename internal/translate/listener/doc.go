// Package listener makes the listeners of sidecars and of gateways.
//
// In: a View. Out: Listener resources, encoded. Law: pure; nothing volatile (a version, a time) is in any listener, for a
// change outside filter chains drains all of a listener's connections. No two listeners of a proxy have one name or one
// address, and no two chains of a listener one match: Envoy would refuse them. A name stands for an address for ever.
//
// It works in two steps. First a plan is made: services and rules become [Spec] values, plain data that prints well
// (spec_text.go). Then each Spec is built as an Envoy listener, once, remembered by the text of the Spec. Routes are never
// inside outbound listeners: they come by RDS, under the name that the Spec has. Nor are policies for requests: an edit of one ends no
// connection.
//
//	generator.go          all listeners of a View, and what is wrong with the objects they are made of
//	plans.go              what Views have in common, and what stays from one state of the mesh to the next
//	virtual.go            where captured connections arrive, outbound
//	inbound.go ingress.go the workload's own side
//	outbound_input.go     all that outbound listeners depend on
//	outbound*.go          services bid for places, older ones first: by port (of a Sidecar), address, protocol
//	outbound_change.go    which services have to bid again after a change, and so which places are planned anew
//	l4_route.go           where TCP and TLS routes of VirtualServices lead
//	draft.go inherit.go   a place with its claims becomes a Spec
//	gateway*.go           the servers of Gateways that share a place, and what comes in from outside the mesh
//	conflict.go           who did not get what they bid for
//	dynamic_dns.go        where names are looked up before a request or connection is sent on
//	policies.go           who may call: by ECDS for requests, in their chains for raw connections
//	build*.go …           a Spec becomes protobuf; the HTTP filters and their order are one list in filters.go
//
// Cases in testdata show what users write, what is planned, and which calls through a real Envoy end where.
//
// Start with [Generator] in generator.go, then spec.go.
package listener
