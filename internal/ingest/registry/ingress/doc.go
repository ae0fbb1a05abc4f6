// Package ingress converts Kubernetes Ingresses to equivalent Gateways and VirtualServices.
//
// The inputs are events about Ingress, IngressClass and Service objects, and Settings. The outputs
// are one Gateway per Ingress that the mesh serves, one VirtualService per host of their rules, and
// Problems. All input events pass through, because other converters need them. The result depends
// only on the set of objects. A changed Ingress costs only its own hosts. If several Ingresses
// conflict, the older one takes precedence, then the one whose name sorts first.
//
// Start reading with [Converter.Convert] in converter.go. class.go decides which Ingresses the mesh
// serves, rules.go parses one, gateway.go and virtual_service.go create the objects, emit.go emits
// what changed, and status.go computes the addresses in the status of Ingresses.
package ingress
