package debug

import (
	"fmt"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// maxPrecedenceNotes limits the number of notes about objects that are not used.
const maxPrecedenceNotes = 5

// precedenceNotes returns the VirtualServices that have the host of an outbound call too and are not
// used, with the reason, and the DestinationRules that are merged for it, in their order. It returns
// nothing for a host without a service.
func (e *explanation) precedenceNotes(call explain.Call, path *explain.Path) []string {
	if call.Direction != explain.Outbound {
		return nil
	}
	svc := e.serviceOf(e.question.Host())
	if svc == nil {
		return nil
	}
	notes := unusedVirtualServices(e.view, svc.Host, routeObject(path))
	if rule := e.view.DestinationRule(svc.Host); rule != nil && len(rule.From) > 1 {
		var names []string
		for _, k := range rule.From {
			names = append(names, k.String())
		}
		notes = append(notes, fmt.Sprintf("merged for host %s: %s; trafficPolicy and equal subsets are those of the oldest",
			rule.Host, strings.Join(names, ", ")))
	}
	return notes[:min(len(notes), maxPrecedenceNotes)]
}

// routeObject returns the VirtualService or HTTPRoute of the route that a request matched. The zero
// Key is returned if the route is of a service without any.
func routeObject(path *explain.Path) config.Key {
	for _, step := range path.Steps {
		if step.Stage != explain.StageRoute {
			continue
		}
		for _, o := range step.By {
			if o.Kind == api.VirtualService || o.Kind == api.HTTPRoute || o.Kind == api.GRPCRoute {
				return o.Key
			}
		}
	}
	return config.Key{}
}

// unusedVirtualServices describes the VirtualServices with HTTP routes for a host that users wrote,
// except the one that is used.
func unusedVirtualServices(v *view.View, host mesh.Hostname, used config.Key) (notes []string) {
	if used == (config.Key{}) {
		return nil
	}
	var winner *snapshot.VirtualService
	var others []*snapshot.VirtualService
	for _, e := range v.Egress {
		for _, vs := range e.VirtualServices {
			switch {
			case len(vs.Spec.GetHttp()) == 0 || matchingHost(vs, host) == "":
			case slices.Contains(vs.From, used):
				winner = vs
			case vs.Config.Extension == nil && !slices.Contains(others, vs):
				others = append(others, vs)
			}
		}
	}
	for _, vs := range others {
		notes = append(notes, fmt.Sprintf("not used: %s also has host %s; %s takes precedence%s",
			vs.Config.Key, matchingHost(vs, host), used, precedenceReason(winner, vs, host)))
	}
	return notes
}

// matchingHost returns the most specific host of a VirtualService that covers a host; "" if none does.
func matchingHost(vs *snapshot.VirtualService, host mesh.Hostname) (best mesh.Hostname) {
	for _, h := range vs.Hosts {
		if h == host {
			return h
		}
		if h.Covers(host) && len(h) > len(best) {
			best = h
		}
	}
	return best
}

// precedenceReason returns why a VirtualService precedes another one for a host, as a suffix. winner
// is nil if a route of the Gateway API is used.
func precedenceReason(winner, loser *snapshot.VirtualService, host mesh.Hostname) string {
	switch {
	case winner == nil:
		return ""
	case matchingHost(winner, host) != matchingHost(loser, host):
		return ": its host " + string(matchingHost(winner, host)) + " is more specific"
	case winner.IsPrivate() != loser.IsPrivate():
		return ": it is exported only to its own namespace"
	default:
		return ": it is older, or of equal age and the first by name"
	}
}
