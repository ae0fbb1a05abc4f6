package lint

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// checkDestination reports a destination whose service is not visible in the namespace of the
// VirtualService, or else one without a port whose service has several. It does nothing without a
// host. Services that do not exist are reported by the analysis of the mesh.
func (r *analysisRun) checkDestination(o *object, d *networking.Destination, field string) {
	if d.GetHost() == "" {
		return
	}
	host := mesh.ResolveShortName(d.GetHost(), o.key.Namespace, r.snapshot.Settings.Domain)
	known, visible, ports := false, false, 0
	for _, svc := range r.snapshot.Services() {
		if svc.Host == host {
			known, ports = true, max(ports, len(svc.Ports))
			visible = visible || r.isVisible(svc, o.key.Namespace)
		}
	}
	switch {
	case known && !visible:
		r.report(
			code.ReferencedResourceNotFound,
			o,
			field+".host",
			"service %q is not visible in namespace %s (exportTo)",
			host,
			o.key.Namespace,
		)
	case known && ports > 1 && d.GetPort() == nil:
		r.report(
			code.VirtualServiceDestinationPortSelectorRequired,
			o,
			field,
			"has no port, and %q has %d ports",
			host,
			ports,
		)
	}
}

// isVisible reports whether a service is exported to a namespace (mesh.Service.IsExportedTo).
func (r *analysisRun) isVisible(svc *mesh.Service, namespace string) bool {
	return svc.IsExportedTo(namespace, r.snapshot.Settings.Mesh.GetDefaultServiceExportTo())
}

// checkDestinations checks the destinations of all routes of VirtualServices, and the mirrors of
// HTTP routes (checkDestination).
func (r *analysisRun) checkDestinations() {
	for o, spec := range specsOf[*networking.VirtualService](r, api.VirtualService) {
		check := func(d *networking.Destination, field string) { r.checkDestination(o, d, field) }
		for i, route := range spec.GetHttp() {
			for j, d := range route.GetRoute() {
				check(d.GetDestination(), fmt.Sprintf("spec.http[%d].route[%d].destination", i, j))
			}
			check(route.GetMirror(), fmt.Sprintf("spec.http[%d].mirror", i))
			for j, m := range route.GetMirrors() {
				check(m.GetDestination(), fmt.Sprintf("spec.http[%d].mirrors[%d].destination", i, j))
			}
		}
		for i, route := range spec.GetTcp() {
			for j, d := range route.GetRoute() {
				check(d.GetDestination(), fmt.Sprintf("spec.tcp[%d].route[%d].destination", i, j))
			}
		}
		for i, route := range spec.GetTls() {
			for j, d := range route.GetRoute() {
				check(d.GetDestination(), fmt.Sprintf("spec.tls[%d].route[%d].destination", i, j))
			}
		}
	}
}

// checkIngressSubsets reports HTTP routes to a host without a subset, in VirtualServices with
// gateways, if another VirtualService of that host has routes to its subsets. These do not apply at
// the gateway. A route is reported once for each such route; hosts are compared as they are
// written.
func (r *analysisRun) checkIngressSubsets() {
	subsets := map[string][]*object{}
	for o, spec := range specsOf[*networking.VirtualService](r, api.VirtualService) {
		for _, route := range spec.GetHttp() {
			for _, d := range route.GetRoute() {
				if h := d.GetDestination().GetHost(); d.GetDestination().GetSubset() != "" &&
					slices.Contains(spec.GetHosts(), h) {
					subsets[h] = append(subsets[h], o)
				}
			}
		}
	}
	for o, spec := range specsOf[*networking.VirtualService](r, api.VirtualService) {
		if len(spec.GetGateways()) == 0 {
			continue
		}
		for i, route := range spec.GetHttp() {
			for j, d := range route.GetRoute() {
				for _, other := range subsets[d.GetDestination().GetHost()] {
					if d.GetDestination().GetSubset() == "" && other != o {
						r.report(
							code.IngressRouteRulesNotAffected,
							o,
							fmt.Sprintf("spec.http[%d].route[%d].destination", i, j),
							"the subsets of VirtualService %s/%s do not apply at gateways",
							other.key.Namespace,
							other.key.Name,
						)
					}
				}
			}
		}
	}
}

// checkEqualMatches reports routes whose matches earlier routes all have. For TCP and TLS routes it
// also reports each such match; validation reports the matches of HTTP routes.
func (r *analysisRun) checkEqualMatches() {
	for o, spec := range specsOf[*networking.VirtualService](r, api.VirtualService) {
		var http, tcp, tls [][]proto.Message
		for _, route := range spec.GetHttp() {
			http = append(http, messages(withoutNames(route.GetMatch())))
		}
		for _, route := range spec.GetTcp() {
			tcp = append(tcp, messages(route.GetMatch()))
		}
		for _, route := range spec.GetTls() {
			tls = append(tls, messages(route.GetMatch()))
		}
		r.reportEqualMatches(o, "http", http, false)
		r.reportEqualMatches(o, "tcp", tcp, true)
		r.reportEqualMatches(o, "tls", tls, true)
	}
}

// reportEqualMatches reports the routes of one protocol whose matches earlier routes all have. If
// matches is true, it also reports each single match that an earlier route has.
func (r *analysisRun) reportEqualMatches(o *object, protocol string, routes [][]proto.Message, matches bool) {
	var earlier []proto.Message
	for i, route := range routes {
		repeated := 0
		for j, m := range route {
			if !slices.ContainsFunc(earlier, func(e proto.Message) bool { return proto.Equal(e, m) }) {
				continue
			}
			repeated++
			if matches {
				r.report(
					code.VirtualServiceIneffectiveMatch,
					o,
					fmt.Sprintf("spec.%s[%d].match[%d]", protocol, i, j),
					"an earlier route has the same match",
				)
			}
		}
		if repeated > 0 && repeated == len(route) {
			r.report(
				code.VirtualServiceUnreachableRule,
				o,
				fmt.Sprintf("spec.%s[%d]", protocol, i),
				"is never reached: earlier routes have all of its matches",
			)
		}
		earlier = append(earlier, route...)
	}
}

// withoutNames returns copies of matches without their names, which do not matter.
func withoutNames(list []*networking.HTTPMatchRequest) []*networking.HTTPMatchRequest {
	out := make([]*networking.HTTPMatchRequest, 0, len(list))
	for _, m := range list {
		c, _ := proto.Clone(m).(*networking.HTTPMatchRequest) // a clone has the type of the original
		c.Name = ""
		out = append(out, c)
	}
	return out
}

// messages returns list as a list of proto.Message.
func messages[M proto.Message](list []M) []proto.Message {
	out := make([]proto.Message, 0, len(list))
	for _, m := range list {
		out = append(out, m)
	}
	return out
}
