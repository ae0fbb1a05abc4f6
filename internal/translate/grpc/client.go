package grpc

import (
	"slices"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// The HTTP filters of gRPC clients, by the names with which routes configure them.
const (
	faultFilter  = "envoy.filters.http.fault"
	routerFilter = "envoy.filters.http.router"
)

// clientInput is everything that the listener of a target depends on.
type clientInput struct {
	host    string // as the client writes it
	port    uint32
	service *mesh.Service
	// routeHost is the host whose routes apply: the service's host, or for an alias the host of the
	// service that it refers to.
	routeHost mesh.Hostname
}

// Clients returns the API listeners that gRPC clients request, by "HOST:PORT": one for each
// captured port of each service of the View, and each name of the service (namesOf). Wildcard hosts
// have none, nor do aliases that do not lead to a service of the View: there are no routes for such
// hosts.
func (g *Generator) Clients(v *view.View) []*resource.Resource {
	var list []*resource.Resource
	for _, svc := range v.Services {
		leads := destination.Host(v, svc.Host)
		if svc.Host.IsWildcard() || svc.Resolution == mesh.Alias && isAliasOfUnknown(v, leads) {
			continue
		}
		names := namesOf(v, svc)
		for i, p := range svc.Ports {
			if !p.Protocol.Captured() ||
				slices.ContainsFunc(
					svc.Ports[:i],
					func(o mesh.Port) bool { return o.Number == p.Number && o.Protocol.Captured() },
				) {
				continue
			}
			for _, name := range names {
				list = append(
					list,
					g.clients.Get(clientInput{host: name, port: p.Number, service: svc, routeHost: leads}),
				)
			}
		}
	}
	return list
}

// isAliasOfUnknown reports whether an alias that leads to the host leads has no service: the View
// has none with that host, or that one is an alias too, because aliases refer to each other.
func isAliasOfUnknown(v *view.View, leads mesh.Hostname) bool {
	svc := v.Service(leads)
	return svc == nil || svc.Resolution == mesh.Alias
}

// ClientsTouched reports whether a change may alter the result of Clients. It returns true for any
// change of services, and for changes of visibility if the View has a Sidecar. Changes of endpoints
// and rules do not matter.
func ClientsTouched(v *view.View, _ *snapshot.Snapshot, d snapshot.Delta) bool {
	return d.All || len(d.Services) > 0 || v.Sidecar != nil && d.ChangesVisibility()
}

// namesOf returns the names by which clients may call a service: its host and, for a Kubernetes
// Service with the usual host NAME.NAMESPACE.svc.DOMAIN, the short names. "NAME" alone is included
// only in the View's namespace. A short name that is the host of another service is omitted.
func namesOf(v *view.View, svc *mesh.Service) []string {
	names := []string{string(svc.Host)}
	short := svc.Name + "." + svc.Namespace
	if svc.Provider != mesh.Kubernetes || string(svc.Host) != short+".svc."+v.Settings.Domain {
		return names
	}
	more := []string{short, short + ".svc"}
	if svc.Namespace == v.Key.Namespace {
		more = append(more, svc.Name)
	}
	for _, n := range more {
		if v.Service(mesh.Hostname(n)) == nil {
			names = append(names, n)
		}
	}
	return names
}

// clientListener returns the API listener of a target, named "HOST:PORT", with the filters for
// faults and routing. Its routes come by RDS under the name of the outbound cluster.
func clientListener(in clientInput) *resource.Resource {
	name := in.host + ":" + strconv.FormatUint(uint64(in.port), 10)
	leads := mesh.ClusterName{Direction: mesh.Outbound, Port: in.port, Host: in.routeHost}
	return encodeResource(name, api.ListenerType, &listenerv3.Listener{
		Name: name,
		ApiListener: &listenerv3.ApiListener{ApiListener: packAny(&hcmv3.HttpConnectionManager{
			HttpFilters: []*hcmv3.HttpFilter{
				httpFilter(faultFilter, new(faultv3.HTTPFault)),
				httpFilter(routerFilter, new(routerv3.Router)),
			},
			RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
				RouteConfigName: leads.String(),
				ConfigSource: &corev3.ConfigSource{
					ConfigSourceSpecifier: &corev3.ConfigSource_Ads{
						Ads: new(corev3.AggregatedConfigSource),
					}, ResourceApiVersion: corev3.ApiVersion_V3,
				},
			}},
		})},
	}, in.service.AppendObjects(nil)...)
}

// httpFilter returns the HTTP filter with a name and m as its config.
func httpFilter(name string, m proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packAny(m)}}
}
