package route

import (
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// filterConfigs returns the rule's configurations of HTTP filters for faults, CORS and persistent
// sessions. If several destinations have sessions, the first one's applies, as in Istio.
func (t *translation) filterConfigs(r *networking.HTTPRoute) map[string]*anypb.Any {
	configs := map[string]*anypb.Any{}
	if f := newFault(r.GetFault()); f != nil {
		configs[faultFilter] = resource.Pack(f)
	}
	if c := r.GetCorsPolicy(); c != nil {
		configs[corsFilter] = resource.Pack(newCORS(c))
	}
	for _, d := range r.GetRoute() {
		if s := t.target(d.GetDestination()).session; s != (mesh.Session{}) {
			configs[sessionFilter] = resource.Pack(sessionConfig(s))
			break
		}
	}
	return configs
}
