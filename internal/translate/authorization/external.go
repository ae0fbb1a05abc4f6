package authorization

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
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

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// Names of the filters that call an external authorizer.
const (
	httpAuthorizer = "envoy.filters.http.ext_authz"
	tcpAuthorizer  = "envoy.filters.network.ext_authz"
)

// authorizerTimeout is the default timeout of an authorizer, as in istiod.
const authorizerTimeout = 10 * time.Minute

// addExternal adds filters for CUSTOM policies to b.out: for each provider, in the order of names,
// shadow rules find matching calls, and the authorizer, whose cluster is also added, is called for
// these. If a provider cannot be used, matching calls are refused, with a Warning for each policy.
// With a usable provider called over HTTP, connections that are not HTTP pass unchecked, which
// reportUnchecked reports. A dry run only adds a Warning.
func (b *builder) addExternal(policies []*config.Config) {
	byProvider := map[string][]*config.Config{}
	for _, c := range policies {
		if isDryRun(c) {
			b.addWarning(c, "metadata.annotations", "action CUSTOM cannot be only tried: the policy has no effect")
			continue
		}
		name := config.Spec[*security.AuthorizationPolicy](c).GetProvider().GetName()
		byProvider[name] = append(byProvider[name], c)
	}
	services := destination.ProvidersByName(b.providers.All)
	for _, name := range slices.Sorted(maps.Keys(byProvider)) {
		list := byProvider[name]
		p := authorizer{name: name, service: services[name]}
		if p.provider, p.fault = b.findProvider(name, p.service); p.fault == "" {
			p.fault = p.settingsFault()
		}
		for _, c := range list {
			if p.fault != "" {
				b.addWarning(c, "spec.provider.name", p.fault+": the requests that the policy selects are denied")
			}
		}
		b.out.HTTP = append(
			b.out.HTTP,
			p.httpFilters(b.newDecision(list, security.AuthorizationPolicy_CUSTOM, requests).enforced)...,
		)
		b.out.TCP = append(
			b.out.TCP,
			p.networkFilters(b.newDecision(list, security.AuthorizationPolicy_CUSTOM, connections).enforced)...,
		)
		if p.fault == "" {
			b.out.Clusters = append(b.out.Clusters, p.service.Cluster())
		}
		if p.requestsOnly() {
			b.reportUnchecked(list, name)
		}
	}
}

// reportUnchecked adds a ConnectionProblem with a Warning to b.out for each policy, whose provider
// must be called over HTTP: connections that are not HTTP pass unchecked. Its Ports are the ports
// of all rules (portsOf), and AnyPort is set if a rule is not limited to ports. Selects is set if
// the policy's selector has labels.
func (b *builder) reportUnchecked(policies []*config.Config, provider string) {
	reason := fmt.Sprintf("the extension provider %q is called over HTTP, so it checks only requests: connections that are not "+
		"HTTP pass unchecked, also at ports of no Service (use envoyExtAuthzGrpc, or declare the port's protocol as HTTP)", provider)
	for _, c := range policies {
		spec := config.Spec[*security.AuthorizationPolicy](c)
		p := ConnectionProblem{Selects: len(spec.GetSelector().GetMatchLabels()) > 0, Problem: config.Problem{
			Code: code.FieldWithoutEffect,
			Key:  c.Key, Field: "spec.provider.name", Reason: reason, Severity: config.Warning,
		}}
		for _, r := range spec.GetRules() {
			ports, limited := portsOf(r)
			p.AnyPort, p.Ports = p.AnyPort || !limited, append(p.Ports, ports...)
		}
		b.out.ConnectionProblems = append(b.out.ConnectionProblems, p)
	}
}

// portsOf returns the ports of the operations of a rule, in their order. Without an operation, or
// if one names no ports, it returns nil and limited is false. Invalid ports are skipped, and
// conditions on destination.port are not considered.
func portsOf(r *security.Rule) (ports []uint32, limited bool) {
	for _, to := range r.GetTo() {
		if len(to.GetOperation().GetPorts()) == 0 {
			return nil, false
		}
		for _, text := range to.GetOperation().GetPorts() {
			if n, err := strconv.ParseUint(text, 10, 16); err == nil {
				ports = append(ports, uint32(n))
			}
		}
	}
	return ports, len(r.GetTo()) > 0
}

// authorizer is an external authorizer.
type authorizer struct {
	name     string
	service  destination.Provider
	provider *meshconfig.MeshConfig_ExtensionProvider
	fault    string
}

// prefix returns the prefix of the metadata keys to which the shadow rules write their result. It
// is "istio_ext_authz_", the name of a and "_".
func (a authorizer) prefix() string { return "istio_ext_authz_" + a.name + "_" }

// matchedBy returns a matcher of calls that the shadow rules of filter (httpFilter or tcpFilter)
// matched.
func (a authorizer) matchedBy(filter string) *matcherv3.MetadataMatcher {
	return &matcherv3.MetadataMatcher{
		Filter: filter, Path: []*matcherv3.MetadataMatcher_PathSegment{
			pathSegment(a.prefix() + "shadow_effective_policy_id"),
		},
		Value: &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: regex(".+")}},
	}
}

// renameRules returns a copy of rules with the names that CUSTOM policies have in access logs and
// statistics, as in istiod: "istio-ext-authz-PROVIDER-" before ruleName, and behind it
// "-deny-due-to-bad-CUSTOM-action" if the authorizer cannot be used.
func (a authorizer) renameRules(rules *rbacv3.RBAC) *rbacv3.RBAC {
	suffix := ""
	if a.fault != "" {
		suffix = "-deny-due-to-bad-CUSTOM-action"
	}
	out := &rbacv3.RBAC{Action: rules.GetAction(), Policies: map[string]*rbacv3.Policy{}}
	for name, p := range rules.GetPolicies() {
		out.Policies["istio-ext-authz-"+a.name+"-"+name+suffix] = p
	}
	return out
}

// httpFilters returns an RBAC filter with rules as shadow rules, and the ext_authz filter, which
// calls the authorizer for the requests that they match. If the authorizer cannot be used
// (a.fault), it returns one RBAC filter that enforces rules, which refuses these requests.
func (a authorizer) httpFilters(rules *rbacv3.RBAC) []*hcmv3.HttpFilter {
	rules = a.renameRules(rules)
	if a.fault != "" {
		return []*hcmv3.HttpFilter{decision{enforced: rules}.httpFilter(security.AuthorizationPolicy_DENY)}
	}
	filter := func(name string, m proto.Message) *hcmv3.HttpFilter {
		return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: resource.Pack(m)}}
	}
	return []*hcmv3.HttpFilter{
		filter(httpFilter, &httprbacv3.RBAC{ShadowRules: rules, ShadowRulesStatPrefix: a.prefix()}),
		filter(httpAuthorizer, a.checkConfig()),
	}
}

// requestsOnly reports whether the provider can be used but checks no raw connections, because it
// is called over HTTP. It returns false for a provider with a fault.
func (a authorizer) requestsOnly() bool {
	return a.fault == "" && a.provider.GetEnvoyExtAuthzGrpc() == nil
}

// networkFilters returns an RBAC filter with rules as shadow rules, and the filter that calls the
// authorizer for matching connections. If the provider cannot be used (a.fault), also over HTTP, it
// returns one RBAC filter that refuses the connections that rules match. It returns nil for a
// usable authorizer that is called over HTTP: as in istiod, its policies apply to requests only.
func (a authorizer) networkFilters(rules *rbacv3.RBAC) []*listenerv3.Filter {
	if a.requestsOnly() {
		return nil
	}
	rules = a.renameRules(rules)
	if a.fault != "" {
		return []*listenerv3.Filter{decision{enforced: rules}.networkFilter(security.AuthorizationPolicy_DENY)}
	}
	g := a.provider.GetEnvoyExtAuthzGrpc()
	filter := func(name string, m proto.Message) *listenerv3.Filter {
		return &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: resource.Pack(m)}}
	}
	return []*listenerv3.Filter{
		filter(
			tcpFilter,
			&tcprbacv3.RBAC{ShadowRules: rules, ShadowRulesStatPrefix: a.prefix(), StatPrefix: tcpStatPrefix},
		),
		filter(tcpAuthorizer, &tcpauthzv3.ExtAuthz{
			StatPrefix: tcpStatPrefix, GrpcService: a.grpcService(g.GetTimeout()), FailureModeAllow: g.GetFailOpen(),
			TransportApiVersion: corev3.ApiVersion_V3, FilterEnabledMetadata: a.matchedBy(tcpFilter),
		}),
	}
}

// checkConfig returns the config of the ext_authz filter for the provider's gRPC or HTTP service,
// with its settings for failures, bodies and headers. The filter applies only to requests that the
// shadow rules matched. The provider's service must be usable (findProvider).
func (a authorizer) checkConfig() *httpauthzv3.ExtAuthz {
	out := &httpauthzv3.ExtAuthz{
		TransportApiVersion:   corev3.ApiVersion_V3,
		FilterEnabledMetadata: a.matchedBy(httpFilter),
	}
	if g := a.provider.GetEnvoyExtAuthzGrpc(); g != nil {
		out.Services = &httpauthzv3.ExtAuthz_GrpcService{GrpcService: a.grpcService(g.GetTimeout())}
		out.FailureModeAllow, out.ClearRouteCache = g.GetFailOpen(), g.GetClearRouteCache()
		out.StatusOnError, _ = statusOnError(g.GetStatusOnError())
		out.WithRequestBody = requestBody(g.GetIncludeRequestBodyInCheck())
		return out
	}
	h := a.provider.GetEnvoyExtAuthzHttp()
	out.FailureModeAllow, out.ClearRouteCache = h.GetFailOpen(), h.GetClearRouteCache()
	out.StatusOnError, _ = statusOnError(h.GetStatusOnError())
	out.WithRequestBody = requestBody(h.GetIncludeRequestBodyInCheck())
	out.AllowedHeaders = headerNames(h.GetIncludeRequestHeadersInCheck())
	if out.AllowedHeaders == nil { // only then, as in istiod
		out.AllowedHeaders = headerNames(h.GetIncludeHeadersInCheck()) //nolint:staticcheck // deprecated, still in use
	}
	service := &httpauthzv3.HttpService{
		ServerUri: &corev3.HttpUri{
			Uri: "http://" + a.service.Host, HttpUpstreamType: &corev3.HttpUri_Cluster{
				Cluster: a.service.Cluster(),
			}, Timeout: timeoutOf(h.GetTimeout()),
		},
		PathPrefix: h.GetPathPrefix(),
		AuthorizationResponse: &httpauthzv3.AuthorizationResponse{
			AllowedUpstreamHeaders:        headerNames(h.GetHeadersToUpstreamOnAllow()),
			AllowedClientHeaders:          headerNames(h.GetHeadersToDownstreamOnDeny()),
			AllowedClientHeadersOnSuccess: headerNames(h.GetHeadersToDownstreamOnAllow()),
		},
	}
	if more := h.GetIncludeAdditionalHeadersInCheck(); len(more) > 0 {
		service.AuthorizationRequest = new(httpauthzv3.AuthorizationRequest)
		for _, k := range slices.Sorted(maps.Keys(more)) {
			service.AuthorizationRequest.HeadersToAdd = append(
				service.AuthorizationRequest.HeadersToAdd,
				&corev3.HeaderValue{Key: k, Value: more[k]},
			)
		}
	}
	out.Services = &httpauthzv3.ExtAuthz_HttpService{HttpService: service}
	return out
}

// grpcService returns the call of the authorizer's cluster with the service's host as authority and
// the timeout of d (timeoutOf).
func (a authorizer) grpcService(d *durationpb.Duration) *corev3.GrpcService {
	return &corev3.GrpcService{
		TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
			EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: a.service.Cluster(), Authority: a.service.Host},
		},
		Timeout: timeoutOf(d),
	}
}

// timeoutOf returns d, or authorizerTimeout if d is nil.
func timeoutOf(d *durationpb.Duration) *durationpb.Duration {
	if d == nil {
		return durationpb.New(authorizerTimeout)
	}
	return d
}

// statusOnError returns the status of the response if the authorizer does not answer. It is nil,
// for Envoy's default 403, if text is empty. The bool is false, and the status nil, if text is not
// a status code that Envoy knows.
func statusOnError(text string) (*typev3.HttpStatus, bool) {
	if text == "" {
		return nil, true
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if _, known := typev3.StatusCode_name[int32(n)]; err != nil || !known {
		return nil, false
	}
	return &typev3.HttpStatus{Code: typev3.StatusCode(n)}, true
}

// requestBody returns how much of a request's body is sent to the authorizer, or nil (no body) if
// in is nil.
func requestBody(
	in *meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationRequestBody,
) *httpauthzv3.BufferSettings {
	if in == nil {
		return nil
	}
	return &httpauthzv3.BufferSettings{
		MaxRequestBytes:     in.GetMaxRequestBytes(),
		AllowPartialMessage: in.GetAllowPartialMessage(),
		PackAsBytes:         in.GetPackAsBytes(),
	}
}

// headerNames returns a matcher of header names, exact, "prefix*" or "*suffix", ignoring case. It
// returns nil for an empty list.
func headerNames(list []string) *matcherv3.ListStringMatcher {
	if len(list) == 0 {
		return nil
	}
	out := new(matcherv3.ListStringMatcher)
	for _, n := range list {
		out.Patterns = append(out.Patterns, ignoreCase(pattern(strings.ToLower(n))))
	}
	return out
}
