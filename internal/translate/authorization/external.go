package authorization

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	tcpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ext_authz/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"
	security "istio.io/api/security/v1beta1"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// Names of the filters that ask an external authorizer.
const (
	httpAuthorizer = "envoy.filters.http.ext_authz"
	tcpAuthorizer  = "envoy.filters.network.ext_authz"
)

// authorizerTimeout is how long an authorizer may take where its provider says nothing, as istiod has it.
const authorizerTimeout = 10 * time.Minute

// external makes the filters of CUSTOM policies. For each provider the calls that its policies mean are found by rules that are only
// tried; the authorizer is asked for those. A provider that does not work refuses them.
func (b *builder) external(policies []*config.Config) {
	byProvider := map[string][]*config.Config{}
	for _, c := range policies {
		if dryRun(c) {
			b.warn(c, "metadata.annotations", "action CUSTOM cannot be only tried: the policy has no effect")
			continue
		}
		name := config.Spec[*security.AuthorizationPolicy](c).GetProvider().GetName()
		byProvider[name] = append(byProvider[name], c)
	}
	services := destination.ProvidersByName(b.providers.All)
	for _, name := range slices.Sorted(maps.Keys(byProvider)) {
		list := byProvider[name]
		p := authorizer{name: name, service: services[name]}
		p.provider, p.fault = b.provider(name, p.service)
		for _, c := range list {
			if p.fault != "" {
				b.warn(c, "spec.provider.name", p.fault+": what the policy means is refused")
			}
		}
		b.out.HTTP = append(b.out.HTTP, p.http(b.decide(list, security.AuthorizationPolicy_CUSTOM, requests).enforced)...)
		b.out.TCP = append(b.out.TCP, p.tcp(b.decide(list, security.AuthorizationPolicy_CUSTOM, connections).enforced)...)
		if p.fault == "" {
			b.out.Clusters = append(b.out.Clusters, p.service.Cluster())
		}
		if p.requestsOnly() {
			b.reportUnchecked(list, name)
		}
	}
}

// reportUnchecked adds a Warning to ConnectionProblems for each policy whose provider is asked by HTTP.
func (b *builder) reportUnchecked(policies []*config.Config, provider string) {
	reason := fmt.Sprintf("the extension provider %q is asked by HTTP, so it checks requests only: "+
		"connections that are not HTTP pass unchecked (use envoyExtAuthzGrpc, or declare the port's protocol as HTTP)", provider)
	for _, c := range policies {
		b.out.ConnectionProblems = append(b.out.ConnectionProblems, config.Problem{
			Key: c.Key, Field: "spec.provider.name", Reason: reason, Severity: config.Warning,
		})
	}
}

// provider finds a provider of the mesh; fault says why it is of no use.
func (b *builder) provider(name string, s destination.Provider) (*meshconfig.MeshConfig_ExtensionProvider, string) {
	for _, p := range b.settings.Mesh.GetExtensionProviders() {
		if p.GetName() != name {
			continue
		}
		if addressOf(p) == nil {
			return nil, fmt.Sprintf("the extension provider %q is no authorizer", name)
		}
		return p, s.Fault
	}
	return nil, fmt.Sprintf("the mesh has no extension provider %q", name)
}

// authorizer is one external authorizer.
type authorizer struct {
	name     string
	service  destination.Provider
	provider *meshconfig.MeshConfig_ExtensionProvider
	fault    string
}

// prefix is the begin of the names of what the rules that are only tried have found.
func (a authorizer) prefix() string { return "istio_ext_authz_" + a.name + "_" }

// meant holds for calls that a policy of the authorizer means; filter is the name of the one with the rules.
func (a authorizer) meant(filter string) *matcherv3.MetadataMatcher {
	return &matcherv3.MetadataMatcher{
		Filter: filter, Path: []*matcherv3.MetadataMatcher_PathSegment{segment(a.prefix() + "shadow_effective_policy_id")},
		Value: &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: regex(".+")}},
	}
}

func (a authorizer) http(rules *rbacv3.RBAC) []*hcmv3.HttpFilter {
	if a.fault != "" {
		return []*hcmv3.HttpFilter{decision{enforced: rules}.http(security.AuthorizationPolicy_DENY)}
	}
	filter := func(name string, m proto.Message) *hcmv3.HttpFilter {
		return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: resource.Pack(m)}}
	}
	return []*hcmv3.HttpFilter{
		filter(httpFilter, &httprbacv3.RBAC{ShadowRules: rules, ShadowRulesStatPrefix: a.prefix()}),
		filter(httpAuthorizer, a.check()),
	}
}

// requestsOnly reports whether the provider works but cannot be asked about raw connections, because it is asked by HTTP.
func (a authorizer) requestsOnly() bool {
	return a.fault == "" && a.provider.GetEnvoyExtAuthzGrpc() == nil
}

// tcp returns the network filters that ask the authorizer. It returns none for an authorizer that is asked by HTTP, as istiod
// does: its policies hold for requests only. If the provider does not work, the filter refuses what the rules match.
func (a authorizer) tcp(rules *rbacv3.RBAC) []*listenerv3.Filter {
	if a.requestsOnly() {
		return nil
	}
	if a.fault != "" {
		return []*listenerv3.Filter{decision{enforced: rules}.tcp(security.AuthorizationPolicy_DENY)}
	}
	g := a.provider.GetEnvoyExtAuthzGrpc()
	filter := func(name string, m proto.Message) *listenerv3.Filter {
		return &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: resource.Pack(m)}}
	}
	return []*listenerv3.Filter{
		filter(tcpFilter, &tcprbacv3.RBAC{ShadowRules: rules, ShadowRulesStatPrefix: a.prefix(), StatPrefix: tcpStatPrefix}),
		filter(tcpAuthorizer, &tcpauthzv3.ExtAuthz{
			StatPrefix: tcpStatPrefix, GrpcService: a.grpc(g.GetTimeout()), FailureModeAllow: g.GetFailOpen(),
			TransportApiVersion: corev3.ApiVersion_V3, FilterEnabledMetadata: a.meant(tcpFilter),
		}),
	}
}

func (a authorizer) check() *httpauthzv3.ExtAuthz {
	out := &httpauthzv3.ExtAuthz{TransportApiVersion: corev3.ApiVersion_V3, FilterEnabledMetadata: a.meant(httpFilter)}
	if g := a.provider.GetEnvoyExtAuthzGrpc(); g != nil {
		out.Services = &httpauthzv3.ExtAuthz_GrpcService{GrpcService: a.grpc(g.GetTimeout())}
		out.FailureModeAllow, out.ClearRouteCache = g.GetFailOpen(), g.GetClearRouteCache()
		out.StatusOnError, out.WithRequestBody = statusOnError(g.GetStatusOnError()), requestBody(g.GetIncludeRequestBodyInCheck())
		return out
	}
	h := a.provider.GetEnvoyExtAuthzHttp()
	out.FailureModeAllow, out.ClearRouteCache = h.GetFailOpen(), h.GetClearRouteCache()
	out.StatusOnError, out.WithRequestBody = statusOnError(h.GetStatusOnError()), requestBody(h.GetIncludeRequestBodyInCheck())
	out.AllowedHeaders = names(slices.Concat(h.GetIncludeRequestHeadersInCheck(), h.GetIncludeHeadersInCheck())) //nolint:staticcheck // who still writes it
	service := &httpauthzv3.HttpService{
		ServerUri: &corev3.HttpUri{
			Uri: "http://" + a.service.Host, HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: a.service.Cluster()}, Timeout: timeout(h.GetTimeout()),
		},
		PathPrefix: h.GetPathPrefix(),
		AuthorizationResponse: &httpauthzv3.AuthorizationResponse{
			AllowedUpstreamHeaders: names(h.GetHeadersToUpstreamOnAllow()), AllowedClientHeaders: names(h.GetHeadersToDownstreamOnDeny()),
			AllowedClientHeadersOnSuccess: names(h.GetHeadersToDownstreamOnAllow()),
		},
	}
	if more := h.GetIncludeAdditionalHeadersInCheck(); len(more) > 0 {
		service.AuthorizationRequest = new(httpauthzv3.AuthorizationRequest)
		for _, k := range slices.Sorted(maps.Keys(more)) {
			service.AuthorizationRequest.HeadersToAdd = append(service.AuthorizationRequest.HeadersToAdd, &corev3.HeaderValue{Key: k, Value: more[k]})
		}
	}
	out.Services = &httpauthzv3.ExtAuthz_HttpService{HttpService: service}
	return out
}

func (a authorizer) grpc(d *durationpb.Duration) *corev3.GrpcService {
	return &corev3.GrpcService{
		TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: a.service.Cluster(), Authority: a.service.Host}},
		Timeout:         timeout(d),
	}
}

func timeout(d *durationpb.Duration) *durationpb.Duration {
	if d == nil {
		return durationpb.New(authorizerTimeout)
	}
	return d
}

// statusOnError is what callers get when the authorizer does not answer; nil: 403.
func statusOnError(text string) *typev3.HttpStatus {
	var code int32
	if _, err := fmt.Sscanf(text, "%d", &code); err != nil || typev3.StatusCode_name[code] == "" {
		return nil
	}
	return &typev3.HttpStatus{Code: typev3.StatusCode(code)}
}

func requestBody(in *meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationRequestBody) *httpauthzv3.BufferSettings {
	if in == nil {
		return nil
	}
	return &httpauthzv3.BufferSettings{
		MaxRequestBytes: in.GetMaxRequestBytes(), AllowPartialMessage: in.GetAllowPartialMessage(), PackAsBytes: in.GetPackAsBytes(),
	}
}

// names matches names of headers: exact, "prefix*" or "*suffix", in any case.
func names(list []string) *matcherv3.ListStringMatcher {
	if len(list) == 0 {
		return nil
	}
	out := new(matcherv3.ListStringMatcher)
	for _, n := range list {
		out.Patterns = append(out.Patterns, anyCase(pattern(strings.ToLower(n))))
	}
	return out
}
