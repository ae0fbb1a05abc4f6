package explain

import (
	"net/http"
	"slices"
	"strings"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httpauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	headermutationv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	jwtauthnv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	setmetadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_metadata/v3"
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
	routes  decoded[*routev3.RouteConfiguration]
	// request is the request after the filters so far. routed is the result of the last route
	// lookup.
	request *Request
	routed  routed
	// cors are the changes of the CORS filter to the response.
	cors []HeaderChange
}

// http handles a connection in a connection manager and returns its endings. A call without HTTP is
// answered 400, and a silent client waits.
func (w *walk) http(m *hcmv3.HttpConnectionManager) []Ending {
	switch {
	case w.call.carries() == Silence:
		return ended(Waiting, "the proxy waits for a request")
	case w.call.carries() == TLS && !w.secured, w.call.Request == nil:
		w.note(StageFilter, "http_connection_manager", "what comes is no HTTP, and is refused")
		return []Ending{{Share: 1, Kind: Answered, Status: http.StatusBadRequest, Reason: "not HTTP"}}
	}
	x := &exchange{walk: w, manager: m, request: w.call.Request.clone()}
	if end := x.prepare(); end != nil {
		return end
	}
	var end []Ending
	if x.routes, end = x.configuration(); end != nil {
		return end
	}
	if end := x.route(x.routes); end != nil {
		return end
	}
	return x.filters()
}

// prepare normalizes the request before the route lookup: scheme, client address, host without
// port, path. It returns an ending if the path or an upgrade is rejected.
func (x *exchange) prepare() []Ending {
	r := x.request
	x.setScheme()
	x.originalAddress(x.manager)
	if x.manager.GetStripAnyHostPort() {
		r.Authority = withoutPort(r.Authority)
	}
	path, rejected := normalPath(x.manager, r.Path)
	if rejected {
		x.note(StageFilter, "http_connection_manager", "the path %s has what makes no canonical path (a fragment, a zero byte, or escaped slashes where those are not let in), and is refused", r.Path)
		return []Ending{{Share: 1, Kind: Answered, Status: http.StatusBadRequest, Reason: "bad path", Details: "path_normalization_failed"}}
	}
	if path != r.Path {
		x.note(StageFilter, "http_connection_manager", "makes the path canonical: %s", path)
		r.Path = path
	}
	if upgrade, ok := r.value("upgrade"); ok && x.call.spoken() == HTTP1 && !x.upgrades(upgrade) {
		x.note(StageFilter, "http_connection_manager", "upgrades to %s are off", upgrade)
		return []Ending{{Share: 1, Kind: Answered, Status: http.StatusForbidden, Reason: "upgrade refused"}}
	}
	return nil
}

// setScheme sets the scheme of an HTTP/1 request from the connection, or from x-forwarded-proto if
// the proxy trusts that header. HTTP/2 requests keep their own scheme.
func (x *exchange) setScheme() {
	r := x.request
	if x.call.spoken() == HTTP2 && r.Scheme != "" {
		return
	}
	r.Scheme = "http"
	if x.secured {
		r.Scheme = "https"
	}
	if x.manager.GetUseRemoteAddress().GetValue() {
		return // x-forwarded-proto of clients is not trusted
	}
	if proto, ok := r.value("x-forwarded-proto"); ok && (proto == "http" || proto == "https") {
		r.Scheme = proto
	}
}

func (x *exchange) upgrades(to string) bool {
	for _, u := range x.manager.GetUpgradeConfigs() {
		if strings.EqualFold(u.GetUpgradeType(), to) && (u.GetEnabled() == nil || u.GetEnabled().GetValue()) {
			return true
		}
	}
	return false
}

// configuration returns the RouteConfiguration of the connection manager, inline or from RDS. It
// returns a Refused ending if RDS has not delivered it. Other sources are unsupported.
func (x *exchange) configuration() (decoded[*routev3.RouteConfiguration], []Ending) {
	var none decoded[*routev3.RouteConfiguration]
	switch s := x.manager.GetRouteSpecifier().(type) {
	case *hcmv3.HttpConnectionManager_RouteConfig:
		x.note(StageRoutes, s.RouteConfig.GetName(), "are in the listener")
		return decoded[*routev3.RouteConfiguration]{s.RouteConfig, x.from}, nil
	case *hcmv3.HttpConnectionManager_Rds:
		name := s.Rds.GetRouteConfigName()
		d, ok, err := x.routeConfiguration(name)
		if err != nil {
			return none, x.fail(err)
		}
		if !ok {
			x.note(StageRoutes, name, "there are none of this name: the listener waits for them")
			return none, ended(Refused, "routes "+name+" have not come")
		}
		x.note(StageRoutes, name, "come by RDS")
		return d, nil
	default:
		return none, x.unsupported("http_connection_manager", "its routes come in a way that is not followed (%T)", s)
	}
}

// filters runs the HTTP filters in order until one answers all requests or the router is reached.
// Unsupported filters add a step and are skipped.
func (x *exchange) filters() []Ending {
	open := []branch{{share: 1}}
	var out []Ending
	list, end := x.unfolded()
	if end != nil {
		return end
	}
	for _, f := range list {
		end, known := x.guard(f)
		switch {
		case end != nil:
			return append(out, spread(end, open)...)
		case known:
			continue
		}
		switch kind := filterKind(f.GetName()); kind {
		case "router":
			return append(out, x.router(open)...)
		case "fault":
			answered, rest := x.fault(f, open)
			out, open = append(out, answered...), rest
		case "cors":
			if answer := x.corsFilter(f); answer != nil {
				return append(out, spread([]Ending{*answer}, open)...)
			}
		case "grpc_web":
			x.grpcWeb()
		case "dynamic_forward_proxy":
			x.dynamicByHost(f.GetName())
		case "grpc_stats", "set_filter_state", "stats", "alpn", "metadata_exchange", "peer_metadata":
		default:
			x.note(StageUnsupported, f.GetName(), "this HTTP filter is not followed: it may answer, or change the request")
		}
	}
	return append(out, ended(Closed, "the connection manager has no router")...)
}

// spread returns the endings for each open branch, with shares multiplied and delays added.
func spread(endings []Ending, open []branch) []Ending {
	var out []Ending
	for _, b := range open {
		for _, e := range scaled(endings, b.share) {
			e.Delay += b.delay
			out = append(out, e)
		}
	}
	return out
}

// guard runs a filter for access control, or a filter that prepares data for it. known is false for
// all other filters. end is not nil if the filter ends the request.
func (x *exchange) guard(f *hcmv3.HttpFilter) (end []Ending, known bool) {
	message, err := f.GetTypedConfig().UnmarshalNew()
	if err != nil {
		return nil, false
	}
	switch m := message.(type) {
	case *httprbacv3.RBAC:
		return x.access(f.GetName(), m), true
	case *httpauthzv3.ExtAuthz:
		return x.authorizer(f.GetName(), m), true
	case *jwtauthnv3.JwtAuthentication:
		return x.authenticate(f.GetName(), m), true
	case *headermutationv3.HeaderMutation:
		x.mutate(f.GetName(), m)
		return nil, true
	case *setmetadatav3.Config:
		x.setMetadata(m)
		return nil, true
	default:
		return nil, false
	}
}

// router executes the route action and returns its endings for each open branch. The changes of the
// CORS filter are added to the response.
func (x *exchange) router(open []branch) []Ending {
	if len(open) == 0 {
		return nil
	}
	endings := x.act()
	var out []Ending
	for _, b := range open {
		for _, e := range scaled(endings, b.share) {
			e.Delay += b.delay
			e.Response = append(e.Response[:len(e.Response):len(e.Response)], x.cors...)
			out = append(out, e)
		}
	}
	return out
}

// grpcWeb converts a gRPC-Web request to a gRPC request, as Envoy's filter does.
func (x *exchange) grpcWeb() {
	t, _ := x.request.value("content-type")
	if !strings.HasPrefix(t, "application/grpc-web") {
		return
	}
	x.note(StageFilter, "grpc_web", "makes gRPC of the gRPC-Web request")
	x.request.set("content-type", "application/grpc")
	x.request.set("te", "trailers")
}

// objectsOf returns the object in the route's metadata, with the rule that produced the route. For
// a delegate, the delegate's rule is first and the delegating rule second. It returns nil if the
// metadata names no object.
func (x *exchange) objectsOf(r *routev3.Route) []Object {
	key, ok := metadataKey(r.GetMetadata())
	if !ok {
		return nil
	}
	if x.Object != nil && x.routed.host != nil {
		if by := ruleOf(x.Object(key), x.Object, x.routed.host.GetRoutes(), r); by != nil {
			return slices.Clone(by)
		}
	}
	return []Object{{Key: key}}
}
