// Package ingress turns Kubernetes' Ingresses into the Gateways and VirtualServices that say the same.
//
// In: events about Ingress, IngressClass and Service objects, and Settings. Out: one Gateway for each Ingress that is Istio's, one
// VirtualService for each host that they have rules for, and Problems. Everything that came in comes out too: others need it.
// Law: pure and incremental. What is said is a function of the objects that there are, whatever order they came in, and a change
// of an Ingress costs its own hosts. Who counts of several Ingresses is said by age, and then by name.
//
// Start with [Converter.Convert] in converter.go. class.go says whose an Ingress is, rules.go reads one, gateway.go and
// virtual_service.go make the objects, status.go is what callers are told of where they find them.
package ingress
