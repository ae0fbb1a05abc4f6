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

// routesInput is all that the routes of a VirtualService depend on.
type routesInput struct {
	uses *uses
	// port is where requests were caught: what matches by port compare, and the port of destinations that name none.
	port uint32
	// gateway is the Gateway whose requests they are ("namespace/name"), "" for sidecars; tls says that those came by HTTPS.
	gateway string
	tls     bool
	// sources says for each of the uses' sources, in their order, whether it holds ("1" or "0").
	sources string
	// targets are the destination hosts that are more than a name of their own.
	targets memo.List[target]
	// retry is the mesh's default retry policy, nil for Istio's.
	retry *networking.HTTPRetry
	// forwarded tells upstreams which host was asked for where a route makes another of it (x-forwarded-host).
	forwarded bool
}

// target is a destination host that is another name of a service, or that has persistent sessions, or whose DestinationRule hashes.
type target struct {
	host, service mesh.Hostname
	session       mesh.Session
	rule          *snapshot.DestinationRule
	// port is what destinations without one mean, 0 for the port where requests were caught: gateways know better.
	port uint32
}

// translation is the work on one VirtualService.
type translation struct {
	routesInput
	// elsewhere are the matches that hold for other proxies only.
	elsewhere map[*networking.HTTPMatchRequest]bool
}

// routesOf translates the HTTP routes of a VirtualService, in their order. What can never be reached because a route
// before takes everything is left out.
func routesOf(in routesInput) *routes { return encodeRoutes(newTranslation(in).routes()) }

func newTranslation(in routesInput) *translation {
	t := &translation{routesInput: in, elsewhere: map[*networking.HTTPMatchRequest]bool{}}
	for i, m := range in.uses.sources {
		t.elsewhere[m] = in.sources[i] == '0'
	}
	return t
}

func (t *translation) routes() []*routev3.Route {
	var out []*routev3.Route
	for _, r := range t.uses.vs.Spec.GetHttp() {
		matches := r.GetMatch()
		if len(matches) == 0 {
			matches = []*networking.HTTPMatchRequest{nil}
		}
		for _, m := range matches {
			if !t.applies(m) {
				continue
			}
			made := t.route(r, m)
			if made == nil {
				continue
			}
			out = append(out, made)
			if takesAll(made.GetMatch()) {
				return out
			}
		}
	}
	return out
}

// applies says whether a match can hold for requests of this View's proxies on this port.
func (t *translation) applies(m *networking.HTTPMatchRequest) bool {
	return m == nil || (m.GetPort() == 0 || m.GetPort() == t.port) && t.bound(m.GetGateways()) && !t.elsewhere[m]
}

// route translates one match of a rule, nil if the rule says nothing of what to do with a request.
func (t *translation) route(r *networking.HTTPRoute, m *networking.HTTPMatchRequest) *routev3.Route {
	out := &routev3.Route{Name: routeName(r, m), Match: routeMatch(m), StatPrefix: m.GetStatPrefix(), Metadata: t.metadata()}
	ops := headerOperations(r.GetHeaders())
	out.RequestHeadersToAdd, out.RequestHeadersToRemove = ops.requestAdd, ops.requestRemove
	out.ResponseHeadersToAdd, out.ResponseHeadersToRemove = ops.responseAdd, ops.responseRemove
	switch {
	case r.GetRedirect() != nil:
		out.Action = &routev3.Route_Redirect{Redirect: redirect(r.GetRedirect(), t.port, t.tls)}
	case r.GetDirectResponse() != nil:
		out.Action = &routev3.Route_DirectResponse{DirectResponse: directResponse(r.GetDirectResponse())}
	case len(r.GetRoute()) > 0:
		t.forward(out, r, ops.authority)
	default:
		return nil
	}
	out.Decorator = &routev3.Decorator{Operation: t.operation(out)}
	out.TypedPerFilterConfig = t.filterConfigs(r)
	return out
}

// routeName returns the name by which access logs and EnvoyFilters know a route: that of the rule, and behind a dot that of its
// match, if it has one. As with istiod, the dot is there too if the rule has no name.
func routeName(r *networking.HTTPRoute, m *networking.HTTPMatchRequest) string {
	if m.GetName() == "" {
		return r.GetName()
	}
	return r.GetName() + "." + m.GetName()
}

// metadata names the object where tools look for it (filter metadata "istio", key "config").
func (t *translation) metadata() *corev3.Metadata {
	key := t.uses.vs.Config.Key
	path := "/apis/networking.istio.io/v1/namespaces/" + key.Namespace + "/virtual-service/" + key.Name
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
		"istio": {Fields: map[string]*structpb.Value{"config": structpb.NewStringValue(path)}},
	}}
}

// operation names a route in traces: the one destination, or else the VirtualService, and the path.
func (t *translation) operation(r *routev3.Route) string {
	path := operationPath(r.GetMatch())
	if c, err := mesh.ParseClusterName(r.GetRoute().GetCluster()); err == nil {
		return operation(string(c.Host), c.Port) + path
	}
	return operation(t.uses.vs.Config.Name, t.port) + path
}

func operation(name string, port uint32) string {
	return name + ":" + strconv.FormatUint(uint64(port), 10)
}

func operationPath(m *routev3.RouteMatch) string {
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Path:
		return p.Path
	case *routev3.RouteMatch_SafeRegex:
		return p.SafeRegex.GetRegex()
	default:
		return m.GetPrefix() + "*"
	}
}

// cluster gives the cluster of a destination.
func (t *translation) cluster(d *networking.Destination) mesh.ClusterName {
	to := t.target(d)
	return destination.Named(to.service, d, cmp.Or(to.port, t.port))
}

// target finds what is known of a destination's host.
func (t *translation) target(d *networking.Destination) target {
	host := t.uses.vs.Resolve(d.GetHost())
	for k := range t.targets.All {
		if k.host == host {
			return k
		}
	}
	return target{host: host, service: host}
}
