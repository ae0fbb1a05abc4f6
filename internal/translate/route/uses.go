package route

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// uses is a VirtualService, with what its HTTP routes depend on in a View.
type uses struct {
	vs *snapshot.VirtualService
	// hosts are the hosts of all destinations and mirrors, without duplicates.
	hosts []mesh.Hostname
	// sources are the matches that restrict the source of requests, in the order of the object.
	sources []*networking.HTTPMatchRequest
}

// usesOf returns the destinations' hosts of a VirtualService's HTTP routes, including mirrors,
// authorizers and endpoint pickers, and its matches with conditions on the caller's labels or
// namespace. Each host is there once.
func usesOf(vs *snapshot.VirtualService) *uses {
	u := &uses{vs: vs}
	note := func(d *networking.Destination) {
		if h := vs.ResolveHost(d.GetHost()); d != nil && !slices.Contains(u.hosts, h) {
			u.hosts = append(u.hosts, h)
		}
	}
	for _, r := range vs.Spec.GetHttp() {
		for _, d := range r.GetRoute() {
			note(d.GetDestination())
		}
		note(r.GetMirror())
		for _, m := range r.GetMirrors() {
			note(m.GetDestination())
		}
		for _, m := range r.GetMatch() {
			if len(m.GetSourceLabels()) > 0 || m.GetSourceNamespace() != "" {
				u.sources = append(u.sources, m)
			}
		}
	}
	if x := vs.Config.Extension; x != nil {
		for i := range x.HTTP {
			for _, a := range x.HTTP[i].Authorizers() {
				note(authorizerDestination(a))
			}
			for _, p := range x.HTTP[i].Pickers() {
				note(pickerDestination(p))
			}
		}
	}
	return u
}

// matchSources returns which of matches have the View's proxies as source: a "1" or "0" for each,
// in their order.
func matchSources(v *view.View, matches []*networking.HTTPMatchRequest) string {
	out := make([]byte, len(matches))
	for i, m := range matches {
		out[i] = '0'
		if v.SourceMatches(m.GetSourceLabels(), m.GetSourceNamespace()) {
			out[i] = '1'
		}
	}
	return string(out)
}
