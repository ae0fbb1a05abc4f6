package explain

import (
	"net/http"
	"slices"
	"strings"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	httpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	headermutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	jwtauthnv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	setmetadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_metadata/v3"
	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// branch is a share of the requests that no HTTP filter has answered yet, with its delay so far.
type branch struct {
	share float64
	delay time.Duration
}

// exchange is one request in a connection manager.
type exchange struct {
	*walk
	manager *hcmv3.HttpConnectionManager
	// routes is the selected RouteConfiguration.
	routes decoded[*routev3.RouteConfiguration]
	// request is the request after the filters so far. routed is the result of the last route
	// lookup.
	request *Request
	routed  routed
	// cors are the changes of the CORS filter to the response.
	cors []HeaderChange
}

// handleHTTP handles a connection in a connection manager, adds steps, and returns its endings. A
// call without HTTP, or with TLS that was not terminated, is answered 400, and a silent client
// waits. Otherwise it mutates and normalizes a copy of the request, looks up the route and runs the
// filters. It returns the endings of the first of these that ends the request.
func (w *walk) handleHTTP(m *hcmv3.HttpConnectionManager) []Ending {
	switch {
	case w.call.carriedProtocol() == Silence:
		return singleEnding(Waiting, "the proxy waits for a request")
	case w.call.carriedProtocol() == TLS && !w.secured, w.call.Request == nil:
		w.addNote(StageFilter, "http_connection_manager", "the bytes are not HTTP, so the request is rejected")
		return []Ending{{Share: 1, Kind: Answered, Status: http.StatusBadRequest, Reason: "not HTTP",
			Flags: flagProtocolError}}
	}
	x := &exchange{walk: w, manager: m, request: w.call.Request.clone()}
	x.mutateEarly()
	if end := x.normalizeRequest(); end != nil {
		return end
	}
	var end []Ending
	if x.routes, end = x.selectRouteConfiguration(); end != nil {
		return end
	}
	if end := x.lookupRoute(x.routes); end != nil {
		return end
	}
	return x.runFilters()
}

// normalizeRequest normalizes the request before the route lookup: scheme, client address, host
// without port, path. It returns an ending if the path is rejected (400) or the connection manager
// disables the request's upgrade (403, only for HTTP/1.1). It adds a step for each of these and for
// a changed path.
func (x *exchange) normalizeRequest() []Ending {
	r := x.request
	x.setScheme()
	x.setOriginalAddress(x.manager)
	if x.manager.GetStripAnyHostPort() {
		r.Authority = withoutPort(r.Authority)
	}
	path, rejected := normalPath(x.manager, r.Path)
	if rejected {
		x.addNote(
			StageFilter,
			"http_connection_manager",
			"the path %s cannot be normalized (a fragment, a NUL byte, or escaped slashes where they are rejected), so the request is rejected",
			r.Path,
		)
		return []Ending{
			{
				Share:   1,
				Kind:    Answered,
				Status:  http.StatusBadRequest,
				Reason:  "bad path",
				Details: "path_normalization_failed",
			},
		}
	}
	if path != r.Path {
		x.addNote(StageFilter, "http_connection_manager", "normalizes the path: %s", path)
		r.Path = path
	}
	if upgrade, ok := r.headerValue("upgrade"); ok && x.call.httpVersion() == HTTP1 && !x.allowsUpgrade(upgrade) {
		x.addNote(StageFilter, "http_connection_manager", "upgrades to %s are disabled", upgrade)
		return []Ending{{Share: 1, Kind: Answered, Status: http.StatusForbidden, Reason: "upgrade rejected"}}
	}
	return nil
}

// setScheme sets the scheme of the request: https if the connection is secured, else http. If the
// proxy does not use the remote address, a valid x-forwarded-proto overrides it. HTTP/2 requests
// with a scheme keep their own. Other values of the header are ignored.
func (x *exchange) setScheme() {
	r := x.request
	if x.call.httpVersion() == HTTP2 && r.Scheme != "" {
		return
	}
	r.Scheme = "http"
	if x.secured {
		r.Scheme = "https"
	}
	if x.manager.GetUseRemoteAddress().GetValue() {
		return // x-forwarded-proto of clients is not trusted
	}
	if proto, ok := r.headerValue("x-forwarded-proto"); ok && (proto == "http" || proto == "https") {
		r.Scheme = proto
	}
}

// allowsUpgrade reports whether the connection manager permits upgrades to the protocol, in any
// case. A config that is disabled does not permit it.
func (x *exchange) allowsUpgrade(to string) bool {
	for _, u := range x.manager.GetUpgradeConfigs() {
		if strings.EqualFold(u.GetUpgradeType(), to) && (u.GetEnabled() == nil || u.GetEnabled().GetValue()) {
			return true
		}
	}
	return false
}

// selectRouteConfiguration returns the RouteConfiguration of the connection manager, inline or from
// RDS, and adds a step. It returns a Refused ending if RDS has not delivered it, and an Unknown one
// for other sources. If it cannot be decoded, the error is recorded (failWith).
func (x *exchange) selectRouteConfiguration() (decoded[*routev3.RouteConfiguration], []Ending) {
	var none decoded[*routev3.RouteConfiguration]
	switch s := x.manager.GetRouteSpecifier().(type) {
	case *hcmv3.HttpConnectionManager_RouteConfig:
		x.addNote(StageRoutes, s.RouteConfig.GetName(), "inline in the listener")
		return decoded[*routev3.RouteConfiguration]{s.RouteConfig, x.from}, nil
	case *hcmv3.HttpConnectionManager_Rds:
		name := s.Rds.GetRouteConfigName()
		d, ok, err := x.routeConfiguration(name)
		if err != nil {
			return none, x.failWith(err)
		}
		if !ok {
			x.addNote(StageRoutes, name, "no RouteConfiguration of this name was received: the listener waits for it")
			return none, singleEnding(Refused, "route configuration "+name+" was not received")
		}
		x.addNote(StageRoutes, name, "received over RDS")
		return d, nil
	default:
		return none, x.endUnsupported("http_connection_manager", "the route specifier %T is not supported", s)
	}
}

// runFilters runs the HTTP filters in order until one answers all requests or the router is
// reached, and returns all endings. Unsupported filters add a step and are skipped. Without a
// router, the requests that no filter has answered end with Closed. Shares of the requests that a
// fault has answered are no longer open.
func (x *exchange) runFilters() []Ending {
	open := []branch{{share: 1}}
	var out []Ending
	list, end := x.enabledFilters()
	if end != nil {
		return end
	}
	for _, f := range list {
		end, known := x.runAccessFilter(f)
		switch {
		case end != nil:
			return append(out, combineBranches(end, open)...)
		case known:
			continue
		}
		if x.isInert(f) {
			continue
		}
		switch kind := filterKind(f.GetName()); kind {
		case "router":
			return append(out, x.runRouter(open)...)
		case "fault":
			answered, rest := x.evaluateFault(f, open)
			out, open = append(out, answered...), rest
		case "cors":
			if answer := x.corsFilter(f); answer != nil {
				return append(out, combineBranches([]Ending{*answer}, open)...)
			}
		case "grpc_web":
			x.convertGRPCWeb()
		case "dynamic_forward_proxy":
			x.recordDynamicHost(f.GetName())
		case "on_demand":
			x.addNote(StageFilter, "on_demand", onDemandNote)
		case "grpc_stats", "set_filter_state", "stats", "alpn", "metadata_exchange", "peer_metadata":
		default:
			x.addNote(
				StageUnsupported,
				f.GetName(),
				"this HTTP filter is not supported: it may respond, or change the request",
			)
		}
	}
	return append(out, combineBranches(singleEnding(Closed, "the connection manager has no router"), open)...)
}

// isInert reports whether a filter does nothing for this request, because it has no effect by
// itself and the route does not configure it. It returns true only for stateful_session without
// session state and for an ExtensionWithMatcher without a matcher. A filter that the route
// configures is never inert.
func (x *exchange) isInert(f *hcmv3.HttpFilter) bool {
	if x.perRoute(f.GetName()) != nil {
		return false
	}
	if session, ok := unpackAny(f.GetTypedConfig(), new(sessionv3.StatefulSession)); ok {
		return session.GetSessionState() == nil
	}
	matched, ok := unpackAny(f.GetTypedConfig(), new(matchingv3.ExtensionWithMatcher))
	matcher := matched.GetXdsMatcher()
	//nolint:staticcheck // deprecated, and still evaluated
	return ok && matcher.GetMatcherType() == nil && matcher.GetOnNoMatch() == nil && matched.GetMatcher() == nil
}

// combineBranches returns the endings once for each open branch, with the branch's share multiplied
// and its delay added. endings is not modified.
func combineBranches(endings []Ending, open []branch) []Ending {
	var out []Ending
	for _, b := range open {
		for _, e := range scaleShares(endings, b.share) {
			e.Delay += b.delay
			out = append(out, e)
		}
	}
	return out
}

// runAccessFilter runs a filter for access control (RBAC, ext_authz, jwt_authn), or a filter that
// prepares data for it (header_mutation, set_metadata). These add steps, and may change the request
// and the dynamic metadata. known is false for all other filters, and if the configuration cannot
// be decoded. end is not nil if the filter ends the request.
func (x *exchange) runAccessFilter(f *hcmv3.HttpFilter) (end []Ending, known bool) {
	message, err := f.GetTypedConfig().UnmarshalNew()
	if err != nil {
		return nil, false
	}
	switch m := message.(type) {
	case *httprbacv3.RBAC:
		return x.evaluateRBAC(f.GetName(), m), true
	case *httpauthzv3.ExtAuthz:
		return x.evaluateAuthorizer(f.GetName(), m), true
	case *jwtauthnv3.JwtAuthentication:
		return x.evaluateJWT(f.GetName(), m), true
	case *headermutationv3.HeaderMutation:
		x.mutateHeaders(f.GetName(), m)
		return nil, true
	case *setmetadatav3.Config:
		x.setMetadata(m)
		return nil, true
	default:
		return nil, false
	}
}

// runRouter executes the route action and returns its endings for each open branch. The changes of
// the CORS filter are added to the response. Without an open branch it executes nothing.
func (x *exchange) runRouter(open []branch) []Ending {
	if len(open) == 0 {
		return nil
	}
	endings := x.runAction()
	var out []Ending
	for _, b := range open {
		for _, e := range scaleShares(endings, b.share) {
			e.Delay += b.delay
			e.Response = append(e.Response[:len(e.Response):len(e.Response)], x.cors...)
			out = append(out, e)
		}
	}
	return out
}

// convertGRPCWeb converts a gRPC-Web request to a gRPC request, as Envoy's filter does, and adds a
// step. It does nothing for other requests.
func (x *exchange) convertGRPCWeb() {
	t, _ := x.request.headerValue("content-type")
	if !strings.HasPrefix(t, "application/grpc-web") {
		return
	}
	x.addNote(StageFilter, "grpc_web", "converts the gRPC-Web request to gRPC")
	x.request.setHeader("content-type", "application/grpc")
	x.request.setHeader("te", "trailers")
}

// routeOrigins returns the object in the route's metadata, with the rule that produced the route.
// For a delegate, the delegate's rule is first and the delegating rule second. An unknown rule is
// empty. It returns nil if the metadata names no object.
func (x *exchange) routeOrigins(r *routev3.Route) []Object {
	key, ok := MetadataKey(r.GetMetadata())
	if !ok {
		return nil
	}
	if rule, ok := gatewayAPIRule(key, r.GetName(), x.Object); ok {
		return []Object{{Key: key, Rule: rule}}
	}
	if x.Object != nil && x.routed.host != nil {
		if by := ruleOf(x.Object(key), x.Object, x.routed.host.GetRoutes(), r); by != nil {
			return slices.Clone(by)
		}
	}
	return []Object{{Key: key}}
}
