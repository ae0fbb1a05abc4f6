package listener

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	grpcwebv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_web/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	setstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/translate/certificate"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
)

// filterSet is what decides which HTTP filters a connection manager has.
type filterSet struct {
	// calledFrom is set where callers come to the proxy, callsOn where it sends requests on to others; a gateway does both.
	calledFrom, callsOn bool
	grpcWeb             bool
	// port is where plugins are told apart by.
	port uint32
}

// side is whose listeners those are.
func (of filterSet) side() plugin.Side {
	switch {
	case !of.calledFrom:
		return plugin.Outbound
	case of.callsOn:
		return plugin.Edge
	default:
		return plugin.Inbound
	}
}

// httpFilters is the HTTP filters of a connection manager, in the order in which requests pass them.
func (a around) httpFilters(of filterSet) []*hcmv3.HttpFilter {
	var list []*hcmv3.HttpFilter
	add := func(name string, config proto.Message) {
		list = append(list, &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: resource.Pack(config)}})
	}
	if of.grpcWeb {
		add("envoy.filters.http.grpc_web", new(grpcwebv3.GrpcWeb)) // first: whatever comes after sees gRPC
	}
	run := func(phase plugin.Phase) { list = append(list, a.requestPlugins(phase, of.side(), of.port)...) }
	by := new(guard)
	if of.calledFrom && a.guard != nil {
		by = a.guard
	}
	run(plugin.BeforeAuthentication)
	list = append(list, by.callers...) // before anything is done for the caller
	run(plugin.BeforeAuthorization)
	list = append(list, by.requests...)
	run(plugin.AfterAuthorization)
	run(plugin.Last)
	add("envoy.filters.http.fault", new(faultv3.HTTPFault)) // before what the upstream does: a fault stands for all of it
	add("envoy.filters.http.cors", new(corsv3.Cors))        // answers preflights itself; routes configure it
	if of.callsOn && a.peers {
		add("envoy.filters.http.set_filter_state", requestMark()) // for the cluster, whichever is chosen
	}
	if of.callsOn && a.settings.Features.PersistentSessions {
		add("envoy.filters.http.stateful_session", new(sessionv3.StatefulSession)) // routes configure it
	}
	add("envoy.filters.http.router", &routerv3.Router{ // ends the list
		SuppressEnvoyHeaders: a.settings.Mesh.GetDefaultConfig().GetProxyHeaders().GetEnvoyDebugHeaders().GetDisabled().GetValue(),
	})
	return list
}

// requestMark tells clusters that what is sent are requests: see certificate.RequestKey.
func requestMark() *setstatev3.Config {
	return &setstatev3.Config{OnRequestHeaders: []*statev3.FilterStateValue{{
		Key:        &statev3.FilterStateValue_ObjectKey{ObjectKey: certificate.RequestKey},
		FactoryKey: "envoy.string",
		Value: &statev3.FilterStateValue_FormatString{FormatString: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineString{InlineString: certificate.IsRequest},
			}},
		}},
		SharedWithUpstream: statev3.FilterStateValue_ONCE,
	}}}
}
