package wire

import (
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
)

// CheckResource decodes a resource in full and applies the constraints of Envoy's API to it, as a proxy
// would. It is slow.
func CheckResource(t Type, b []byte) error {
	m := map[Type]interface {
		proto.Message
		ValidateAll() error
	}{
		CDS:  &clusterv3.Cluster{},
		EDS:  &endpointv3.ClusterLoadAssignment{},
		LDS:  &listenerv3.Listener{},
		RDS:  &routev3.RouteConfiguration{},
		ECDS: &corev3.TypedExtensionConfig{},
	}[t]
	if m == nil {
		return fmt.Errorf("no message of type %v", t)
	}
	if err := proto.Unmarshal(b, m); err != nil {
		return fmt.Errorf("decode %v: %w", t, err)
	}
	if err := m.ValidateAll(); err != nil {
		return fmt.Errorf("validate %v: %w", t, err)
	}
	return nil
}
