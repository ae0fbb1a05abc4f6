package route

import (
	"cmp"
	"strconv"

	networking "istio.io/api/networking/v1alpha3"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// routesInput is everything that the routes of a VirtualService depend on.
type routesInput struct {
	uses *uses
	// port is where requests were received. Matches compare it, and it is the default port of
	// destinations.
	port uint32
	// gateway is the Gateway whose requests are routed ("namespace/name"), "" for sidecars. tls is
	// set if requests come by HTTPS.
	gateway string
	tls     bool
	// sources has for each of uses.sources, in its order, whether the proxies match it ("1") or not
	// ("0").
	sources string
	// targets are the destination hosts with properties beyond their name.
	targets memo.List[target]
	// retry is the mesh's default retry policy, nil for Istio's.
	retry *networking.HTTPRetry
	// forwarded sends the original host to upstreams when a route replaces it (x-forwarded-host).
	forwarded bool
	// shadowHosts adds "-shadow" to the host of mirrored requests.
	shadowHosts bool
}

// target is a destination host that is an alias, has persistent sessions, or has a hash policy.
type target struct {
	host, service mesh.Hostname
	session       mesh.Session
	rule          *snapshot.DestinationRule
	// port is the default port of destinations, or 0 for the port where requests were received.
	// Only gateways set it.
	port uint32
	// missing is set if the proxies see no service with the host.
	missing bool
}

// translation translates one VirtualService.
type translation struct {
	routesInput
	// elsewhere are the matches whose source is not these proxies.
	elsewhere map[*networking.HTTPMatchRequest]bool
}

// buildRoutes translates the HTTP routes of a VirtualService, in their order. Routes after a
// catch-all are unreachable and are left out.
func buildRoutes(in routesInput) *routes { return encodeRoutes(newTranslation(in).buildRoutes()) }

// newTranslation returns a translation of in. It sets elsewhere to true for the matches whose byte
// in in.sources is '0'.
func newTranslation(in routesInput) *translation {
	t := &translation{routesInput: in, elsewhere: map[*networking.HTTPMatchRequest]bool{}}
	for i, m := range in.uses.sources {
		t.elsewhere[m] = in.sources[i] == '0'
	}
	return t
}

// buildRoutes returns the routes of a VirtualService for the View's proxies, with extensions
// applied, up to the first that matches all requests. Rules without an action, and matches for
// other proxies, have none. It returns nil if there are none.
func (t *translation) buildRoutes() []*routev3.Route {
	var out []*routev3.Route
	for i, r := range t.uses.vs.Spec.GetHttp() {
		matches := r.GetMatch()
		if len(matches) == 0 {
			matches = []*networking.HTTPMatchRequest{nil}
		}
		for _, m := range matches {
			if !t.applies(m) {
				continue
			}
			made := t.newRoute(r, m)
			if made == nil {
				continue
			}
			t.extend(made, r, i)
			out = append(out, made)
			if takesAll(made.GetMatch()) {
				return out
			}
		}
	}
	return out
}

// applies reports whether a match, nil for any request, can match requests of the View's proxies:
// by its port, gateways and source. Matches in t.elsewhere, for other sources, apply to none.
func (t *translation) applies(m *networking.HTTPMatchRequest) bool {
	return m == nil || (m.GetPort() == 0 || m.GetPort() == t.port) && t.isBound(m.GetGateways()) && !t.elsewhere[m]
}

// newRoute translates the match m of the rule r, nil for any request, without the rule's extension.
// A redirect takes precedence over a direct response, and that over destinations. It returns nil if
// the rule has no action.
func (t *translation) newRoute(r *networking.HTTPRoute, m *networking.HTTPMatchRequest) *routev3.Route {
	out := &routev3.Route{
		Name:       routeName(r, m),
		Match:      routeMatch(m),
		StatPrefix: m.GetStatPrefix(),
		Metadata:   t.metadata(),
	}
	ops := headerOperations(r.GetHeaders())
	out.RequestHeadersToAdd, out.RequestHeadersToRemove = ops.requestAdd, ops.requestRemove
	out.ResponseHeadersToAdd, out.ResponseHeadersToRemove = ops.responseAdd, ops.responseRemove
	switch {
	case r.GetRedirect() != nil:
		out.Action = &routev3.Route_Redirect{Redirect: newRedirect(r.GetRedirect(), t.port, t.tls)}
	case r.GetDirectResponse() != nil:
		out.Action = &routev3.Route_DirectResponse{DirectResponse: directResponse(r.GetDirectResponse())}
	case len(r.GetRoute()) > 0:
		t.forwardTo(out, r, ops.authority)
	default:
		return nil
	}
	out.Decorator = &routev3.Decorator{Operation: t.operation(out)}
	out.TypedPerFilterConfig = t.filterConfigs(r)
	return out
}

// routeName returns the name of a route for access logs and EnvoyFilters: the name of the rule, and
// after a dot the name of its match, if it has one. As in istiod, the dot remains if the rule has
// no name.
func routeName(r *networking.HTTPRoute, m *networking.HTTPMatchRequest) string {
	if m.GetName() == "" {
		return r.GetName()
	}
	return r.GetName() + "." + m.GetName()
}

// metadata returns metadata with the path of the VirtualService, or of the object of the Gateway
// API that it was converted from, in the form that tools look up (filter metadata "istio", key
// "config").
func (t *translation) metadata() *corev3.Metadata {
	key := t.uses.vs.Config.Key
	path := "/apis/networking.istio.io/v1/namespaces/" + key.Namespace + "/virtual-service/" + key.Name
	if x := t.uses.vs.Config.Extension; x != nil {
		path = "/apis/gateway.networking.k8s.io/v1/namespaces/" + x.Source.Namespace + "/" + string(x.Source.Kind) +
			"/" + x.Source.Name
	}
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
		"istio": {Fields: map[string]*structpb.Value{"config": structpb.NewStringValue(path)}},
	}}
}

// operation returns the name of a route in traces: its only destination with its port, followed by
// the path. If it has none or several, it is the name of the VirtualService with t.port instead.
func (t *translation) operation(r *routev3.Route) string {
	path := operationPath(r.GetMatch())
	if c, err := mesh.ParseClusterName(r.GetRoute().GetCluster()); err == nil {
		return operation(string(c.Host), c.Port) + path
	}
	return operation(t.uses.vs.Config.Name, t.port) + path
}

// operation returns "name:port", the form of operations in traces.
func operation(name string, port uint32) string {
	return name + ":" + strconv.FormatUint(uint64(port), 10)
}

// operationPath returns the path that a match matches, as text for traces; a prefix is followed by
// "*". A regular expression is returned as it is. It returns "/*" for a prefix of whole path
// elements, as istiod does.
func operationPath(m *routev3.RouteMatch) string {
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Path:
		return p.Path
	case *routev3.RouteMatch_Prefix:
		return p.Prefix + "*"
	case *routev3.RouteMatch_SafeRegex:
		return p.SafeRegex.GetRegex()
	default:
		return "/*"
	}
}

// cluster returns the name of the outbound cluster of a destination, after aliases are followed. A
// destination without a port has the target's default port, or the port where requests were
// received.
func (t *translation) cluster(d *networking.Destination) mesh.ClusterName {
	to := t.target(d)
	return destination.Named(to.service, d, cmp.Or(to.port, t.port))
}

// target returns the properties of a destination's host, which may be short: it is resolved in the
// namespace of the VirtualService. A host that is not in t.targets has only its name.
func (t *translation) target(d *networking.Destination) target {
	host := t.uses.vs.ResolveHost(d.GetHost())
	for k := range t.targets.All {
		if k.host == host {
			return k
		}
	}
	return target{host: host, service: host}
}
