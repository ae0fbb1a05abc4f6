// Package gatewayapi converts objects of the Kubernetes Gateway API to Gateways and
// VirtualServices, the internal routing model, and computes their status.
//
// The inputs are events about GatewayClasses, Gateways, ListenerSets, routes, ReferenceGrants,
// BackendTLSPolicies, InferencePools, XBackends, and the objects that they reference. The outputs
// are Istio Gateways, VirtualServices and DestinationRules whose keys name the objects that they
// derive from, the services of InferencePools and XBackends, Problems, the desired status of every
// object of this controller ([Statuses]), and the gateways that have to be deployed ([Deployment]).
// All input events pass through. The result depends only on the set of objects, and a changed route
// costs only that route and what it shares with others.
//
// Start reading with [Converter.Convert] in converter.go, and with docs/adr/0037.
package gatewayapi
