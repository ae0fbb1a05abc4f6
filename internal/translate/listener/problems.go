package listener

import (
	"fmt"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Problems returns Warnings, without Origin, for everything without effect in the objects that
// shape a View's listeners: SharedProblems and InboundProblems. They are sorted and without
// duplicates. It returns nil for types other than sidecars and gateways.
func (g *Generator) Problems(v *view.View) []config.Problem {
	list := slices.Concat(g.SharedProblems(v), g.InboundProblems(v))
	slices.SortFunc(list, config.Problem.Compare)
	return slices.Compact(list)
}

// InboundProblems returns the Problems of a sidecar's View that depend on the ports of the workload
// (Key.Inbound). Computing them is cheap. It returns nil for types other than sidecars.
func (g *Generator) InboundProblems(v *view.View) []config.Problem {
	if v.Key.Type != mesh.SidecarProxy {
		return nil
	}
	own := newInboundPlan(v)
	own.capturedPorts(v)
	return slices.Concat(own.problems, g.connectionProblems(v))
}

// SharedProblems returns the Problems of a View that do not depend on the ports of the workload,
// unsorted. So they are the same for all Keys that differ only in Inbound. It returns nil for types
// other than sidecars and gateways.
func (g *Generator) SharedProblems(v *view.View) []config.Problem {
	if v.Key.Type == mesh.RouterProxy {
		return slices.Concat(g.gateway(v).problems, g.telemetry.Problems(v), g.policyProblems(v), g.connectionProblems(v))
	}
	if v.Key.Type != mesh.SidecarProxy {
		return nil
	}
	taken, common := boundNames(v), g.outbound(v)
	list := slices.Concat(
		conflictProblems(common.conflicts),
		withoutPlaces(common.problems),
		g.telemetry.Problems(v),
		g.policyProblems(v),
	)
	list = append(list, unimported(v)...)
	for _, r := range common.resources {
		if taken[r.Name] {
			list = append(list, warning(v.Sidecar.Key, "spec.ingress", fmt.Sprintf(
				"a listener bound to %s leaves no room for the outbound one at the same place: give it an address (bind)",
				r.Name)))
		}
	}
	return list
}

// unimported returns one Warning if the Sidecar of the View names an egressProxy that exists in the
// mesh but that it does not import, otherwise nil: also without a Sidecar, and for a host that is
// no service.
func unimported(v *view.View) []config.Problem {
	host := mesh.Hostname(v.OutboundTrafficPolicy().EgressProxy.GetHost())
	is := func(svc *mesh.Service) bool { return svc.Host == host }
	if v.Sidecar == nil || host == "" || v.Service(host) != nil || !slices.ContainsFunc(v.Snapshot.Services(), is) {
		return nil
	}
	return []config.Problem{{
		Code: code.ReferencedResourceNotFound,
		Key:  v.Sidecar.Key, Field: "spec.outboundTrafficPolicy.egressProxy.host", Severity: config.Warning,
		Reason: fmt.Sprintf(
			"no egress listener of this Sidecar imports %q: connections to unknown destinations fail",
			host),
	}}
}
