package listener

import (
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	grpcwebv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_web/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/proto"
)

// httpFilters is the HTTP filters of a connection manager, in the order in which requests pass them.
func httpFilters(mesh *meshconfig.MeshConfig, grpcWeb bool) []*hcmv3.HttpFilter {
	var list []*hcmv3.HttpFilter
	add := func(name string, config proto.Message) {
		list = append(list, &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(config)}})
	}
	if grpcWeb {
		add("envoy.filters.http.grpc_web", new(grpcwebv3.GrpcWeb)) // first: whatever comes after sees gRPC
	}
	add("envoy.filters.http.fault", new(faultv3.HTTPFault)) // before what the upstream does: a fault stands for all of it
	add("envoy.filters.http.cors", new(corsv3.Cors))        // answers preflights itself; routes configure it
	add("envoy.filters.http.router", &routerv3.Router{      // ends the list
		SuppressEnvoyHeaders: mesh.GetDefaultConfig().GetProxyHeaders().GetEnvoyDebugHeaders().GetDisabled().GetValue(),
	})
	return list
}
