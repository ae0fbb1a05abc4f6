// Package listener generates the listeners of sidecars and of gateways.
//
// The input is a View, and the outputs are encoded Listener resources. No listener contains
// anything volatile (a version, a time), because a change outside filter chains drains all of a
// listener's connections. No two listeners of a proxy have the same name or address, and no two
// chains of a listener the same match: Envoy would refuse them. A name is permanently bound to an
// address.
//
// Translation has two steps. First, services and rules are planned as [Spec] values, plain data
// with a readable text (spec_text.go). Then each Spec is encoded as an Envoy listener, once, and
// cached by the text of the Spec. Outbound listeners contain no routes: these come by RDS, under
// the name in the Spec. They contain no policies for requests either, so an edit of a policy drains
// no connection.
//
//	generator.go          all listeners of a View
//	problems.go           Problems of the objects that they derive from
//	spec*.go              planned listeners, and their text
//	address.go            addresses and ports of proxies
//	outbound*.go …        outbound listeners, see below
//	virtual.go            the listeners that receive captured outbound connections
//	inbound.go ingress.go the workload's own ports
//	gateway*.go           the servers of Gateways that share an address
//	dynamic_dns.go        DNS lookups before a request or connection is forwarded
//	policies.go           access policies: by ECDS for requests, in filter chains for raw connections
//	policy_problems.go    policies that do not check raw connections at a port of the proxies
//	build*.go …           encode a Spec as protobuf; filters.go has the order of all HTTP filters
//
// The outbound listeners of a class are planned in steps. Each file calls functions only of files
// below it, and of outbound_input.go, address.go and spec.go:
//
//	outbound.go           plans all listeners, or after a change only the affected ones; encodes them
//	outbound_input.go     everything that they depend on
//	outbound_change.go    two inputs -> the services whose addresses are planned again
//	outbound_plan.go      egress listeners -> their service ports, of older services first
//	outbound_address.go   a service port -> the addresses for which it is a candidate
//	outbound_chain.go     a candidate of an address -> the connections that it requests
//	draft.go              requested connections -> the candidate that receives them
//	l4_route.go           a candidate -> the rules for its connections
//	l4_destination.go     a rule, or the service itself -> the destinations, with their policy
//	conflict.go           connections that a candidate does not receive -> Problems
//	outbound_spec.go      the draft of an address, when it has all candidates -> its Spec
//
// Cases in testdata show users' objects, the planned listeners, and the result of calls through a
// real Envoy.
//
// Start with [Generator] in generator.go, then spec.go.
package listener
