package readapi

import (
	"cmp"
	"fmt"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// ClusterRow is a cluster of a proxy.
type ClusterRow struct {
	Name      string `json:"name"`
	Host      string `json:"host,omitempty" doc:"Host of the service, if the name has the form DIRECTION|PORT|SUBSET|HOST."`
	Port      uint32 `json:"port,omitempty"`
	Subset    string `json:"subset,omitempty"`
	Direction string `json:"direction,omitempty" doc:"outbound or inbound"`
	Type      string `json:"type" doc:"Discovery type: EDS, STATIC, STRICT_DNS, ORIGINAL_DST …"`
	Sources
}

// addCluster adds the row of a cluster, and returns an error if r cannot be decoded. Host, port,
// subset and direction stay empty if the name does not have the form of this control plane's names.
func (t *proxyTables) addCluster(r *resource.Resource) error {
	m := new(clusterv3.Cluster)
	if err := proto.Unmarshal(r.Body, m); err != nil {
		return err
	}
	row := ClusterRow{Name: m.GetName(), Type: m.GetType().String(), Sources: t.sourcesOf(r)}
	if m.GetClusterType() != nil {
		row.Type = m.GetClusterType().GetName()
	}
	if n, err := mesh.ParseClusterName(m.GetName()); err == nil {
		row.Host, row.Port, row.Subset, row.Direction = string(n.Host), n.Port, n.Subset, string(n.Direction)
	}
	t.Clusters = appendRow(t, t.Clusters, row)
	return nil
}

// compareClusters orders clusters as pilotctl proxy-config does: by host, subset, port and name,
// and clusters without a host last.
func compareClusters(a, b ClusterRow) int {
	if (a.Host == "") != (b.Host == "") {
		return cmp.Compare(b.Host, a.Host)
	}
	return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Subset, b.Subset), cmp.Compare(a.Port, b.Port),
		cmp.Compare(a.Name, b.Name))
}

// RouteRow is a route of a proxy.
type RouteRow struct {
	Config      string   `json:"config" doc:"Name of the RouteConfiguration."`
	VirtualHost string   `json:"virtualHost"`
	Domains     []string `json:"domains" doc:"Some of the domains of the virtual host."`
	Match       string   `json:"match"`
	Action      string   `json:"action" doc:"Clusters with weights, redirect or direct response."`
	Sources
}

// maxDomains limits the domains of a RouteRow.
const maxDomains = 3

// addRoutes adds a row for each route of a RouteConfiguration, with at most maxDomains domains, and
// returns an error if r cannot be decoded. The row's source is the object in the route's metadata;
// without it, the row has none.
func (t *proxyTables) addRoutes(r *resource.Resource) error {
	m := new(routev3.RouteConfiguration)
	if err := proto.Unmarshal(r.Body, m); err != nil {
		return err
	}
	for _, h := range m.GetVirtualHosts() {
		domains := h.GetDomains()
		for _, route := range h.GetRoutes() {
			row := RouteRow{
				Config: m.GetName(), VirtualHost: h.GetName(), Domains: domains[:min(len(domains), maxDomains)],
				Match: explain.DescribeMatch(route.GetMatch()), Action: explain.DescribeAction(route),
			}
			if k, ok := explain.MetadataKey(route.GetMetadata()); ok {
				row.Sources = t.newSources([]config.Key{k})
			}
			t.Routes = appendRow(t, t.Routes, row)
		}
	}
	return nil
}

// EndpointRow is an endpoint of a cluster.
type EndpointRow struct {
	Cluster  string `json:"cluster"`
	Address  string `json:"address"`
	Health   string `json:"health" doc:"Health status that the control plane reports; UNKNOWN counts as healthy."`
	Weight   uint32 `json:"weight"`
	Priority uint32 `json:"priority,omitempty"`
	Locality string `json:"locality,omitempty" doc:"REGION/ZONE/SUBZONE"`
}

// addEndpoints adds a row for each endpoint of a ClusterLoadAssignment, and returns an error if r
// cannot be decoded. A missing weight is 1.
func (t *proxyTables) addEndpoints(r *resource.Resource) error {
	m := new(endpointv3.ClusterLoadAssignment)
	if err := proto.Unmarshal(r.Body, m); err != nil {
		return err
	}
	for _, group := range m.GetEndpoints() {
		l := group.GetLocality()
		locality := strings.TrimRight(l.GetRegion()+"/"+l.GetZone()+"/"+l.GetSubZone(), "/")
		for _, e := range group.GetLbEndpoints() {
			t.Endpoints = appendRow(t, t.Endpoints, EndpointRow{
				Cluster: m.GetClusterName(), Address: addressText(e.GetEndpoint().GetAddress()),
				Health: e.GetHealthStatus().String(), Weight: max(1, e.GetLoadBalancingWeight().GetValue()),
				Priority: group.GetPriority(), Locality: locality,
			})
		}
	}
	return nil
}

// addressText returns an address as HOST:PORT, as unix://PATH, or as "internal NAME" for an
// internal listener.
func addressText(a *corev3.Address) string {
	switch {
	case a.GetPipe() != nil:
		return config.SocketPrefix + a.GetPipe().GetPath()
	case a.GetEnvoyInternalAddress() != nil:
		return "internal " + a.GetEnvoyInternalAddress().GetServerListenerName()
	default:
		return fmt.Sprintf("%s:%d", a.GetSocketAddress().GetAddress(), a.GetSocketAddress().GetPortValue())
	}
}
