package differential

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// reduction collects facts about what a proxy was sent, as text by name.
type reduction struct {
	proxy *sidecar.Proxy
	facts map[string]string
}

// compact returns a message as JSON, the same for equal messages; "" for none.
func compact(m proto.Message) string {
	if m == nil || !m.ProtoReflect().IsValid() {
		return ""
	}
	raw, err := protojson.Marshal(m)
	var b bytes.Buffer
	if err == nil {
		err = json.Compact(&b, raw)
	}
	if err != nil {
		return err.Error()
	}
	return b.String()
}

// clusters adds the facts of outbound clusters and their endpoints.
func (f *reduction) clusters(t *testing.T) {
	t.Helper()
	for _, name := range f.proxy.ResourceNames(api.ClusterType) {
		c := new(clusterv3.Cluster)
		if !strings.HasPrefix(name, "outbound|") || !f.proxy.Read(api.ClusterType, name, c) {
			continue
		}
		f.facts["cluster "+name] = c.GetType().String()
		add := func(what, value string) { f.facts["cluster "+name+", "+what] = value }
		add("connect timeout", c.GetConnectTimeout().AsDuration().String())
		add("balancer", c.GetLbPolicy().String())
		add("outlier detection", compact(c.GetOutlierDetection()))
		for _, limits := range c.GetCircuitBreakers().GetThresholds() {
			add("max connections", limits.GetMaxConnections().String())
			add("max requests", limits.GetMaxRequests().String())
			add("max pending", limits.GetMaxPendingRequests().String())
		}
		add("TLS", tlsOf(c))
		assignment := c.GetLoadAssignment()
		if c.GetType() == clusterv3.Cluster_EDS {
			assignment = new(endpointv3.ClusterLoadAssignment)
			if !f.proxy.Read(api.EndpointType, name, assignment) {
				add("endpoints", "none sent")
				continue
			}
		}
		add("endpoints", endpointsOf(assignment))
	}
}

// tlsOf returns how a cluster's connections are secured.
func tlsOf(c *clusterv3.Cluster) string {
	if len(c.GetTransportSocketMatches()) > 0 {
		return "by endpoint"
	}
	context := new(tlsv3.UpstreamTlsContext)
	if c.GetTransportSocket().GetTypedConfig().UnmarshalTo(context) != nil {
		return "none"
	}
	return fmt.Sprintf("sni=%s", context.GetSni())
}

func endpointsOf(a *endpointv3.ClusterLoadAssignment) string {
	var list []string
	for _, group := range a.GetEndpoints() {
		for _, e := range group.GetLbEndpoints() {
			s := e.GetEndpoint().GetAddress().GetSocketAddress()
			mode := e.GetMetadata().GetFilterMetadata()["envoy.transport_socket_match"].GetFields()["tlsMode"].GetStringValue()
			list = append(list, fmt.Sprintf("%s:%d weight=%d health=%s priority=%d locality=%s tls=%s", s.GetAddress(), s.GetPortValue(),
				max(1, e.GetLoadBalancingWeight().GetValue()), e.GetHealthStatus(), group.GetPriority(), group.GetLocality().GetRegion(), mode))
		}
	}
	slices.Sort(list)
	return strings.Join(list, "; ")
}

// listeners adds at which addresses connections are taken, and which route configurations apply.
func (f *reduction) listeners(t *testing.T) {
	t.Helper()
	for _, name := range f.proxy.ResourceNames(api.ListenerType) {
		l := new(listenerv3.Listener)
		if !f.proxy.Read(api.ListenerType, name, l) {
			continue
		}
		address := l.GetAddress().GetSocketAddress()
		key := fmt.Sprintf("listener %s:%d", address.GetAddress(), address.GetPortValue())
		f.facts[key] = "bound=" + fmt.Sprint(l.GetBindToPort() == nil || l.GetBindToPort().GetValue())
		if l.GetTrafficDirection().String() == "INBOUND" || name == "virtualOutbound" {
			continue
		}
		var routes []string
		for _, chain := range append(slices.Clone(l.GetFilterChains()), l.GetDefaultFilterChain()) {
			for _, filter := range chain.GetFilters() {
				m := new(hcmv3.HttpConnectionManager)
				if filter.GetTypedConfig().MessageIs(m) && filter.GetTypedConfig().UnmarshalTo(m) == nil {
					routes = append(routes, m.GetRds().GetRouteConfigName())
				}
			}
		}
		slices.Sort(routes)
		f.facts[key+", routes"] = strings.Join(slices.Compact(routes), " ")
	}
}

// routes adds the domains and the routes of a route configuration.
func (f *reduction) routes(name string) {
	c := new(routev3.RouteConfiguration)
	if !f.proxy.Read(api.RouteType, name, c) {
		return
	}
	for _, v := range c.GetVirtualHosts() {
		for _, domain := range v.GetDomains() {
			f.facts[fmt.Sprintf("route %s, domain %s", name, domain)] = "served"
			for i, r := range v.GetRoutes() {
				key := fmt.Sprintf("route %s, %s, %d", name, domain, i)
				f.facts[key+", match"] = compact(r.GetMatch())
				f.action(key, r)
			}
		}
	}
}

// action adds what a route does.
func (f *reduction) action(key string, r *routev3.Route) {
	add := func(what, value string) {
		if value != "" {
			f.facts[key+", "+what] = value
		}
	}
	add("redirect", compact(r.GetRedirect()))
	add("direct response", compact(r.GetDirectResponse()))
	for _, h := range slices.Concat(r.GetRequestHeadersToAdd(), r.GetResponseHeadersToAdd()) {
		add("adds "+h.GetHeader().GetKey(), h.GetHeader().GetValue()+" "+h.GetAppendAction().String())
	}
	a := r.GetRoute()
	if a == nil {
		return
	}
	to := []string{a.GetCluster()}
	for _, w := range a.GetWeightedClusters().GetClusters() {
		to = append(to, fmt.Sprintf("%s=%d", w.GetName(), w.GetWeight().GetValue()))
	}
	add("to", strings.Join(to, " "))
	add("timeout", a.GetTimeout().AsDuration().String())
	add("rewrite", a.GetPrefixRewrite()+compact(a.GetRegexRewrite())+a.GetHostRewriteLiteral())
	if p := a.GetRetryPolicy(); p != nil {
		add("retries", fmt.Sprintf("%d in %s", p.GetNumRetries().GetValue(), p.GetPerTryTimeout().AsDuration()))
	}
	for i, m := range a.GetRequestMirrorPolicies() {
		add(fmt.Sprintf("mirror %d", i), m.GetCluster()+" "+compact(m.GetRuntimeFraction()))
	}
	for i, h := range a.GetHashPolicy() {
		add(fmt.Sprintf("hash %d", i), compact(h))
	}
}
