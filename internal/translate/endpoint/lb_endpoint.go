package endpoint

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/mesh"
)

// lbEndpoint makes one endpoint. Further addresses of it are for Envoy's Happy Eyeballs, which it has for addresses that
// it does not resolve.
func lbEndpoint(e weighted, resolved bool) *endpointv3.LbEndpoint {
	target := &endpointv3.Endpoint{Address: addressProto(e.Address, e.Port)}
	if !resolved {
		for _, a := range e.MoreAddresses {
			target.AdditionalAddresses = append(target.AdditionalAddresses, &endpointv3.Endpoint_AdditionalAddress{Address: addressProto(a, e.Port)})
		}
	}
	out := &endpointv3.LbEndpoint{
		HostIdentifier:      &endpointv3.LbEndpoint_Endpoint{Endpoint: target},
		LoadBalancingWeight: wrapperspb.UInt32(e.weight),
	}
	if w := workload(e.Endpoint); w != "" {
		out.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
			"istio": {Fields: map[string]*structpb.Value{"workload": structpb.NewStringValue(w)}},
		}}
	}
	if e.Health == mesh.Unhealthy {
		out.HealthStatus = corev3.HealthStatus_UNHEALTHY
	}
	return out
}

func addressProto(address string, port uint32) *corev3.Address {
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

// localityProto gives a locality as Envoy has it; an unknown one is an empty message, not a missing one.
func localityProto(l mesh.Locality) *corev3.Locality {
	return &corev3.Locality{Region: l.Region, Zone: l.Zone, SubZone: l.SubZone}
}
