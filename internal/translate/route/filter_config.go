package route

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/mesh"
)

// filterConfigs gives what a rule wants of HTTP filters that idle otherwise. Of several destinations with sessions the first one's
// counts, as in Istio.
func (t *translation) filterConfigs(r *networking.HTTPRoute) map[string]*anypb.Any {
	configs := map[string]*anypb.Any{}
	if f := fault(r.GetFault()); f != nil {
		configs[faultFilter] = packed(f)
	}
	if c := r.GetCorsPolicy(); c != nil {
		configs[corsFilter] = packed(cors(c))
	}
	for _, d := range r.GetRoute() {
		if s := t.target(d.GetDestination()).session; s != (mesh.Session{}) {
			configs[sessionFilter] = packed(sessionConfig(s))
			break
		}
	}
	return configs
}

func packed(m proto.Message) *anypb.Any {
	a := new(anypb.Any)
	if err := anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic(fmt.Sprintf("route: encode %T: %v", m, err)) // messages of our own making always encode
	}
	return a
}
