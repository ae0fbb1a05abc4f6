package config

import (
	"fmt"
	"math"
	"regexp"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/code"
)

// checkTLSRoute adds Errors for a TLS route without a match and for invalid destinations
// (checkRouteDestinations). In matches, invalid server names (checkSNIHosts), subnets, ports,
// labels, gateways and namespaces are Errors. hosts are the hosts of the VirtualService, and toMesh
// is set if it applies to the mesh. An old form of a gateway's name is a Warning.
func (r *report) checkTLSRoute(at path, route *networking.TLSRoute, hosts []string, toMesh bool) {
	if len(route.GetMatch()) == 0 {
		r.errorf(at.Child("match"), "is required: TLS is routed by the server name that the client asks for")
	}
	for i, match := range route.GetMatch() {
		here := at.Child("match").Index(i)
		r.checkSNIHosts(here.Child("sniHosts"), match.GetSniHosts(), hosts, toMesh)
		r.checkSubnets(here.Child("destinationSubnets"), match.GetDestinationSubnets())
		r.checkOptionalPort(here.Child("port"), match.GetPort())
		r.checkLabels(here.Child("sourceLabels"), match.GetSourceLabels())
		r.checkGatewayNames(here.Child("gateways"), match.GetGateways())
		r.checkSourceNamespace(here.Child("sourceNamespace"), match.GetSourceNamespace())
	}
	r.checkRouteDestinations(at.Child("route"), route.GetRoute())
}

// checkSNIHosts adds an Error for each server name of a match that is invalid (serverNameFault), or
// neither equal to a host of the VirtualService nor covered by one. Without hosts all are covered.
// No names is an Error too.
func (r *report) checkSNIHosts(at path, names, hosts []string, toMesh bool) {
	if len(names) == 0 {
		r.errorf(at, "is required")
	}
	for i, name := range names {
		if fault := serverNameFault(name, toMesh); fault != "" {
			r.errorf(at.Index(i), "%s", fault)
			continue
		}
		covered := len(hosts) == 0
		for _, host := range hosts {
			covered = covered || hostCovers(host, name)
		}
		if !covered {
			r.errorf(at.Index(i), "%q is covered by none of the VirtualService's hosts %q", name, hosts)
		}
	}
}

// serverNameFault returns why name cannot be a host or server name of a VirtualService
// (wildcardFault), or "". Unless it applies to the mesh (toMesh), name may also be a server name of
// mutual TLS between proxies, such as "outbound_.80_.v1_.reviews.default.svc.cluster.local".
func serverNameFault(name string, toMesh bool) string {
	if host := meshServerName.FindStringSubmatch(name); host != nil && !toMesh {
		return domainFault(host[1])
	}
	return wildcardFault(name)
}

// meshServerName matches server names of mutual TLS between proxies, and their host.
var meshServerName = regexp.MustCompile(`^outbound_\.[0-9]{1,5}_\.[a-zA-Z0-9._-]*_\.([^_]+)$`)

// checkTCPRoute adds Errors for invalid subnets, ports, labels, gateways and namespaces in the
// matches of a TCP route, and for its destinations (checkRouteDestinations). It may have no
// matches. An old form of a gateway's name is a Warning.
func (r *report) checkTCPRoute(at path, route *networking.TCPRoute) {
	for i, match := range route.GetMatch() {
		here := at.Child("match").Index(i)
		r.checkSubnets(here.Child("destinationSubnets"), match.GetDestinationSubnets())
		r.checkOptionalPort(here.Child("port"), match.GetPort())
		if subnet := match.GetSourceSubnet(); subnet != "" {
			r.addFault(here.Child("sourceSubnet"), subnetFault(subnet))
		}
		r.checkLabels(here.Child("sourceLabels"), match.GetSourceLabels())
		r.checkGatewayNames(here.Child("gateways"), match.GetGateways())
		r.checkSourceNamespace(here.Child("sourceNamespace"), match.GetSourceNamespace())
	}
	r.checkRouteDestinations(at.Child("route"), route.GetRoute())
}

// warnUnreachableTCP adds a Warning for each route after the first route without a match, which
// accepts every connection.
func (r *report) warnUnreachableTCP(at path, routes []*networking.TCPRoute) {
	for i, route := range routes {
		if len(route.GetMatch()) > 0 {
			continue
		}
		for j := i + 1; j < len(routes); j++ {
			r.warnCode(code.VirtualServiceUnreachableRule, at.Index(j),
				"is never reached: tcp[%d] has no match and handles every connection", i)
		}
		return
	}
}

// checkRouteDestinations adds Errors for invalid destinations and weights of a TLS or TCP route,
// which needs at least one.
func (r *report) checkRouteDestinations(at path, routes []*networking.RouteDestination) {
	if len(routes) == 0 {
		r.errorf(at, "is required")
	}
	weights := make([]int32, len(routes))
	for i, route := range routes {
		r.checkDestination(at.Index(i).Child("destination"), route.GetDestination())
		weights[i] = route.GetWeight()
	}
	r.checkWeights(at, weights)
}

// checkDestination adds Errors for a missing destination of requests, connections or mirrored
// requests, and for an invalid host, subset or port. The host may be a wildcard, but not "*". It
// does not check whether the host exists.
func (r *report) checkDestination(at path, destination *networking.Destination) {
	if destination == nil {
		r.errorf(at, "is required")
		return
	}
	fault := wildcardFault(destination.GetHost())
	if destination.GetHost() == "*" {
		fault = "\"*\" is not a destination"
	}
	r.addFault(at.Child("host"), fault)
	if subset := destination.GetSubset(); subset != "" {
		r.addFault(at.Child("subset"), subsetFault(subset))
	}
	if destination.GetPort() != nil {
		r.checkPortNumber(at.Child("port", "number"), destination.GetPort().GetNumber())
	}
}

// subsetFault returns why name cannot be the name of a subset, or "" if it can: a DNS label in
// upper or lower case.
func subsetFault(name string) string {
	if name == "" {
		return "a subset name is required"
	}
	if !isHostLabel(name) {
		return fmt.Sprintf(
			"%q is not a subset name: it must be a DNS label (letters, digits and \"-\", at most 63 characters)",
			name)
	}
	return ""
}

// checkWeights adds Errors for negative weights of the destinations of a route, for a sum of 0 of
// several destinations, and for a sum over 32 bits.
func (r *report) checkWeights(at path, weights []int32) {
	var sum int64
	for i, weight := range weights {
		r.checkNonNegative(at.Index(i).Child("weight"), weight)
		sum += int64(weight)
	}
	switch {
	case len(weights) > 1 && sum == 0:
		r.errorf(at, "the weights of the destinations add up to 0")
	case sum > math.MaxUint32: // Envoy limits the sum to 32 bits
		r.errorf(at, "the weights of the destinations add up to %d, more than %d", sum, uint32(math.MaxUint32))
	}
}
