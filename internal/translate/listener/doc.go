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
//	outbound.go           the outbound listeners of a class, derived from the previous ones
//	outbound_input.go     all inputs of outbound listeners
//	outbound_plan.go      the planner: services are candidates for addresses, older ones first
//	address.go            addresses of proxies, and the addresses at which a service port is planned
//	draft.go              the listener of one address: which service receives which connections
//	l4_route.go           the destinations of connections: TCP and TLS routes, or the service itself
//	outbound_spec.go      a draft becomes a Spec
//	conflict.go           services that do not receive connections, and why
//	virtual.go            the listeners that receive captured outbound connections
//	inbound.go ingress.go the workload's own ports
//	gateway*.go           the servers of Gateways that share an address
//	dynamic_dns.go        DNS lookups before a request or connection is forwarded
//	policies.go           access policies: by ECDS for requests, in filter chains for raw connections
//	policy_problems.go    policies that do not check raw connections at a port of the proxies
//	build*.go …           encode a Spec as protobuf; filters.go has the order of all HTTP filters
//
// Cases in testdata show users' objects, the planned listeners, and the result of calls through a
// real Envoy.
//
// Start with [Generator] in generator.go, then spec.go. An outbound listener passes through outbound.go,
// outbound_input.go, outbound_plan.go, address.go, draft.go, l4_route.go and outbound_spec.go, in this
// order.
package listener
