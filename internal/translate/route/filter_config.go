package route

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// filterConfigs gives what a rule wants of HTTP filters that idle otherwise.
func filterConfigs(r *networking.HTTPRoute) map[string]*anypb.Any {
	configs := map[string]*anypb.Any{}
	if f := fault(r.GetFault()); f != nil {
		configs[faultFilter] = packed(f)
	}
	if c := r.GetCorsPolicy(); c != nil {
		configs[corsFilter] = packed(cors(c))
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
