package envoy

import (
	"fmt"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// routeListener returns a listener with the inline route configuration. i is its index in the
// bootstrap, which makes its address unique. Inline routes to missing clusters are rejected, unlike
// routes over RDS, so that check is disabled unless the configuration sets it.
func routeListener(i int, r *routev3.RouteConfiguration) (*listenerv3.Listener, error) {
	r = proto.CloneOf(r)
	if r.GetValidateClusters() == nil {
		r.ValidateClusters = wrapperspb.Bool(false)
	}
	router, err := anypb.New(&routerv3.Router{})
	if err != nil {
		return nil, err
	}
	hcm, err := anypb.New(&hcmv3.HttpConnectionManager{
		StatPrefix:     fmt.Sprintf("routes-%d", i),
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: r},
		HttpFilters: []*hcmv3.HttpFilter{{
			Name:       "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: router},
		}},
	})
	if err != nil {
		return nil, err
	}
	const firstPort = 20000
	return &listenerv3.Listener{
		Name:    fmt.Sprintf("routes-%d", i),
		Address: loopbackAddress(uint32(firstPort + i)),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: hcm},
		}}}},
	}, nil
}
