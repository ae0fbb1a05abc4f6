package listener

import (
	"net/netip"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	uuidv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/request_id/uuid/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// connectionManager encodes an HTTP connection manager by h, with the mesh's settings and
// telemetry, and at gateways applyEdge. Inbound routes are inline, and responses for lost requests
// are marked (lostRequests). Other routes come by RDS under h.Route, and the listener warms until
// they arrive. If h.Destination is set, requests carry their original destination (setDestination).
// port selects the plugins.
func (b builder) connectionManager(h *HTTP, port uint32) *hcmv3.HttpConnectionManager {
	m := &hcmv3.HttpConnectionManager{
		StatPrefix: h.StatPrefix,
		CodecType:  hcmv3.HttpConnectionManager_AUTO,
		HttpFilters: b.filtersOf(filterSet{
			calledFrom: b.inbound || b.edge,
			callsOn:    !b.inbound,
			grpcWeb:    h.GRPCWeb,
			perRoute:   h.Gateway != nil && h.Gateway.PerRoute,
			port:       port,
		}),
		AccessLog:         b.side().HTTPLogs,
		Tracing:           b.side().Tracing,
		UseRemoteAddress:  wrapperspb.Bool(false),
		StreamIdleTimeout: durationpb.New(0), // Applications decide how long streams may be idle.
		Proxy_100Continue: !b.settings.Features.AnswerExpectContinue,
		UpgradeConfigs:    []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
	}
	if !b.side().SamplesByRequestID {
		m.RequestIdExtension = &hcmv3.RequestIDExtension{TypedConfig: resource.Pack(&uuidv3.UuidRequestIdConfig{
			UseRequestIdForTraceSampling: wrapperspb.Bool(false),
		})}
	}
	m.HttpFilters = withLookup(m.HttpFilters, h.Lookup)
	b.normalizePath(m)
	b.applyConnectionSettings(m)
	b.applyProxyHeaders(m)
	if h.Gateway != nil {
		b.applyEdge(m, h.Gateway)
	}
	if b.settings.Features.InternalNetworks || h.Gateway != nil {
		m.InternalAddressConfig = internalAddresses(mesh.NetworkRanges(b.settings.Networks))
	}
	if b.settings.AcceptsHTTP10() {
		http1Options(m).AcceptHttp_10 = true
	}
	if h.Destination {
		m.EarlyHeaderMutationExtensions = []*corev3.TypedExtensionConfig{setDestination()}
	}
	if h.AbsoluteURL {
		http1Options(m).AllowAbsoluteUrl = wrapperspb.Bool(true)
	}
	if h.Inbound != nil {
		m.LocalReplyConfig = lostRequests()
		m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: inboundRoutes(h.Inbound)}
		return m
	}
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
		RouteConfigName: h.Route,
		ConfigSource: &corev3.ConfigSource{
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: new(corev3.AggregatedConfigSource)},
			// Until its routes arrive, an open listener would answer 404; a warming one is better.
			InitialFetchTimeout: durationpb.New(0),
			ResourceApiVersion:  corev3.ApiVersion_V3,
		},
	}}
	return m
}

// setDestination returns an extension that sets mesh.DestinationHeader to the original destination
// address before the route lookup. It replaces a value that the application sent.
func setDestination() *corev3.TypedExtensionConfig {
	return &corev3.TypedExtensionConfig{
		Name: "envoy.http.early_header_mutation.header_mutation",
		TypedConfig: resource.Pack(&earlyv3.HeaderMutation{Mutations: []*mutationv3.HeaderMutation{{
			Action: &mutationv3.HeaderMutation_Append{Append: &corev3.HeaderValueOption{
				Header: &corev3.HeaderValue{
					Key:   mesh.DestinationHeader,
					Value: "%DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT%",
				},
				AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
			}},
		}}}),
	}
}

// internalAddresses returns the configuration with which clients in the ranges are internal, or nil
// without ranges.
func internalAddresses(ranges []netip.Prefix) *hcmv3.HttpConnectionManager_InternalAddressConfig {
	if len(ranges) == 0 {
		return nil
	}
	c := new(hcmv3.HttpConnectionManager_InternalAddressConfig)
	for _, r := range ranges {
		c.CidrRanges = append(c.CidrRanges, cidrRange(r))
	}
	return c
}

// http1Options returns the HTTP/1.1 options of m, which it creates if needed.
func http1Options(m *hcmv3.HttpConnectionManager) *corev3.Http1ProtocolOptions {
	if m.HttpProtocolOptions == nil {
		m.HttpProtocolOptions = new(corev3.Http1ProtocolOptions)
	}
	return m.HttpProtocolOptions
}

// normalizePath sets in m how paths are normalized before any match (MeshConfig.pathNormalization).
// The default, and any unknown value, is BASE.
func (b builder) normalizePath(m *hcmv3.HttpConnectionManager) {
	on := wrapperspb.Bool(true)
	switch b.settings.Mesh.GetPathNormalization().GetNormalization() {
	case meshconfig.MeshConfig_ProxyPathNormalization_NONE:
		m.NormalizePath = wrapperspb.Bool(false)
	case meshconfig.MeshConfig_ProxyPathNormalization_MERGE_SLASHES:
		m.NormalizePath, m.MergeSlashes = on, true
	case meshconfig.MeshConfig_ProxyPathNormalization_DECODE_AND_MERGE_SLASHES:
		m.NormalizePath, m.MergeSlashes = on, true
		m.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD
	default: // BASE is the default.
		m.NormalizePath = on
	}
}

// inboundRoutes returns the only route of an inbound chain, which sends all requests to the
// application's cluster without a timeout. If r.Retries is set, unsent requests are retried
// (unsentRetries). mesh.LostRequestHeader is removed from responses. Clusters are not validated:
// otherwise the proxy would refuse the listener if the cluster came later.
func inboundRoutes(r *InboundRoute) *routev3.RouteConfiguration {
	action := &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: r.Cluster},
		Timeout:          durationpb.New(0),
		// The caller's proxy already limits the request. A gRPC deadline of the caller is kept,
		// however long.
		MaxStreamDuration: &routev3.RouteAction_MaxStreamDuration{
			MaxStreamDuration: durationpb.New(0), GrpcTimeoutHeaderMax: durationpb.New(0),
		},
	}
	if r.Retries {
		action.RetryPolicy = unsentRetries()
	}
	return &routev3.RouteConfiguration{
		Name:             r.Cluster,
		ValidateClusters: wrapperspb.Bool(false),
		// Only this proxy may set it.
		ResponseHeadersToRemove: []string{mesh.LostRequestHeader},
		VirtualHosts: []*routev3.VirtualHost{{
			Name:    r.VirtualHost,
			Domains: []string{"*"},
			Routes: []*routev3.Route{{
				Name:      "default",
				Match:     &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Decorator: &routev3.Decorator{Operation: r.Operation},
				Action:    &routev3.Route_Route{Route: action},
			}},
		}},
	}
}
