package listener

import (
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
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

// filterSet is the properties of a connection manager that determine its HTTP filters.
type filterSet struct {
	// calledFrom is set if clients connect to the proxy, callsOn if it forwards requests to other
	// proxies. A gateway has both.
	calledFrom, callsOn bool
	grpcWeb             bool
	// perRoute is set for listeners of the Gateway API, whose routes can configure additional filters.
	perRoute bool
	// port selects the plugins.
	port uint32
}

// side returns the side of plugins for these connection managers: Outbound unless calledFrom is
// set, otherwise Edge (a gateway) if callsOn is set, and Inbound if not.
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

// httpFilters returns the HTTP filters of a connection manager, in the order in which requests pass
// them: gRPC-Web, access filters, faults and CORS. Then follow the filters that routes of the
// Gateway API configure, the mark of requests, sessions, on-demand discovery and the router. Access
// filters run only where clients connect to the proxy (of.calledFrom); plugins run between and
// after them by phase.
func (a listenerContext) httpFilters(of filterSet) []*hcmv3.HttpFilter {
	var list []*hcmv3.HttpFilter
	add := func(name string, config proto.Message) {
		list = append(
			list,
			&hcmv3.HttpFilter{
				Name:       name,
				ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: resource.Pack(config)},
			},
		)
	}
	if of.grpcWeb {
		// first, so that all others see gRPC
		add("envoy.filters.http.grpc_web", new(grpcwebv3.GrpcWeb))
	}
	run := func(phase plugin.Phase) { list = append(list, a.requestPlugins(phase, of.side(), of.port)...) }
	by := new(accessFilters)
	if of.calledFrom && a.access != nil {
		by = a.access
	}
	list = append(list, by.custom...)
	run(plugin.BeforeAuthentication)
	list = append(list, by.callers...) // before any work for an unauthenticated caller
	run(plugin.BeforeAuthorization)
	list = append(list, by.requests...)
	run(plugin.AfterAuthorization)
	run(plugin.Last)
	// A fault replaces the upstream's behaviour, so it comes first.
	add("envoy.filters.http.fault", new(faultv3.HTTPFault))
	// Answers preflight requests; routes configure it.
	add("envoy.filters.http.cors", new(corsv3.Cors))
	if of.perRoute {
		add("envoy.filters.http.composite", routeFilter())
	}
	if of.perRoute && a.settings.Features.InferencePools {
		list = append(list, endpointPickerFilter())
	}
	if of.callsOn && a.peers {
		add("envoy.filters.http.set_filter_state", requestMark()) // for all clusters
	}
	if of.callsOn && (a.settings.Features.PersistentSessions || of.perRoute) {
		// Routes configure it.
		add("envoy.filters.http.stateful_session", new(sessionv3.StatefulSession))
	}
	if of.callsOn && a.onDemand {
		// Last, because the filters before it may change the route.
		add("envoy.filters.http.on_demand", onDemandFilter())
	}
	debugHeaders := a.settings.Mesh.GetDefaultConfig().GetProxyHeaders().GetEnvoyDebugHeaders()
	add("envoy.filters.http.router", &routerv3.Router{ // terminal
		SuppressEnvoyHeaders: debugHeaders.GetDisabled().GetValue(),
	})
	return list
}

// routeFilter returns a composite filter that does nothing unless a route configures a filter for
// it to run.
func routeFilter() *matchingv3.ExtensionWithMatcher {
	return &matchingv3.ExtensionWithMatcher{
		ExtensionConfig: &corev3.TypedExtensionConfig{
			Name: "envoy.filters.http.composite", TypedConfig: resource.Pack(new(compositev3.Composite)),
		},
		XdsMatcher: new(xdsmatcherv3.Matcher),
	}
}

// requestMark returns a filter that sets certificate.RequestKey on requests, which clusters read to
// select the transport socket.
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
