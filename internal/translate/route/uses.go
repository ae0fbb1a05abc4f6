package route

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// uses is a VirtualService, and what its HTTP routes need to know of a View.
type uses struct {
	vs *snapshot.VirtualService
	// hosts are those of all destinations and mirrors, each once.
	hosts []mesh.Hostname
	// sources are the matches that ask where a request comes from, in the order of the object.
	sources []*networking.HTTPMatchRequest
}

func usesOf(vs *snapshot.VirtualService) *uses {
	u := &uses{vs: vs}
	note := func(d *networking.Destination) {
		if h := vs.Resolve(d.GetHost()); d != nil && !slices.Contains(u.hosts, h) {
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
	return u
}

// sources says for each match whether its source is this View's proxies, as routesInput has it.
func sources(v *view.View, matches []*networking.HTTPMatchRequest) string {
	out := make([]byte, len(matches))
	for i, m := range matches {
		out[i] = '0'
		if v.SourceMatches(m.GetSourceLabels(), m.GetSourceNamespace()) {
			out[i] = '1'
		}
	}
	return string(out)
}
