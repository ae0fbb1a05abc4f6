package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// Facts returns the properties of a proxy's resources that its outbound clients can observe, as
// texts by name. It reads outbound clusters, listeners and the routes that these use. Resources
// that cannot be decoded are left out.
func Facts(r *explain.Resources) map[string]string {
	f := reduction{resources: r, facts: map[string]string{}}
	f.addClusters()
	f.addListeners()
	return f.facts
}

// reduction collects facts about the resources of a proxy.
type reduction struct {
	resources *explain.Resources
	facts     map[string]string
}

// read decodes a resource into m. It returns false for nil, and for a resource that cannot be
// decoded.
func read(r *resource.Resource, m proto.Message) bool {
	return r != nil && proto.Unmarshal(r.Body, m) == nil
}

// readNamed decodes the resource of a type with a name into m. It returns false if there is none,
// or if it cannot be decoded.
func (f reduction) readNamed(typeURL, name string, m proto.Message) bool {
	return f.resources.Named != nil && read(f.resources.Named(typeURL, name), m)
}

// compact returns a message as JSON on one line, which is the same for equal messages. It returns
// "" for nil, and the text of the error if the message cannot be encoded.
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

// addClusters adds the facts of outbound clusters and their endpoints. Clusters with other names,
// or that cannot be decoded, are left out. An EDS cluster without an assignment has the endpoints
// "none sent".
func (f reduction) addClusters() {
	for _, r := range f.resources.Clusters {
		c, name := new(clusterv3.Cluster), r.Name
		if !strings.HasPrefix(name, "outbound|") || !read(r, c) {
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
			if !f.readNamed(api.EndpointType, name, assignment) {
				add("endpoints", "none sent")
				continue
			}
		}
		add("endpoints", endpointsOf(assignment))
	}
}

// tlsOf returns the TLS settings of a cluster's connections: "sni=NAME", "none", or "by endpoint"
// if they differ between endpoints. An unreadable or other transport socket is "none".
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

// endpointsOf returns the endpoints of a cluster as one text, sorted and separated by "; ", each
// with its address, weight (0 counts as 1), health, priority, region and TLS mode.
func endpointsOf(a *endpointv3.ClusterLoadAssignment) string {
	var list []string
	for _, group := range a.GetEndpoints() {
		for _, e := range group.GetLbEndpoints() {
			s := e.GetEndpoint().GetAddress().GetSocketAddress()
			mode := e.GetMetadata().GetFilterMetadata()["envoy.transport_socket_match"].GetFields()["tlsMode"].GetStringValue()
			list = append(list, fmt.Sprintf("%s:%d weight=%d health=%s priority=%d locality=%s tls=%s",
				s.GetAddress(),
				s.GetPortValue(),
				max(1, e.GetLoadBalancingWeight().GetValue()),
				e.GetHealthStatus(),
				group.GetPriority(),
				group.GetLocality().GetRegion(),
				mode,
			))
		}
	}
	slices.Sort(list)
	return strings.Join(list, "; ")
}

// addListeners adds the address of each listener, and whether it is bound. For listeners that are
// neither inbound nor virtualOutbound it adds the TCP destinations, the names of the route
// configurations and their routes. Listeners that cannot be decoded are skipped.
func (f reduction) addListeners() {
	var all []string
	for _, r := range f.resources.Listeners {
		l := new(listenerv3.Listener)
		if !read(r, l) {
			continue
		}
		address := l.GetAddress().GetSocketAddress()
		key := fmt.Sprintf("listener %s:%d", address.GetAddress(), address.GetPortValue())
		f.facts[key] = "bound=" + fmt.Sprint(l.GetBindToPort() == nil || l.GetBindToPort().GetValue())
		if l.GetTrafficDirection() == corev3.TrafficDirection_INBOUND || r.Name == "virtualOutbound" {
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
		f.addConnections(key, l)
		slices.Sort(routes)
		f.facts[key+", routes"] = strings.Join(slices.Compact(routes), " ")
		all = append(all, routes...)
	}
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		f.addRoutes(name)
	}
}

// addConnections adds the destinations of connections that a listener forwards as TCP, by the
// server names of their filter chains. The filter may be an extension (ECDS). Chains without server
// names have one fact together.
func (f reduction) addConnections(key string, l *listenerv3.Listener) {
	destinations := map[string][]string{}
	for _, chain := range append(slices.Clone(l.GetFilterChains()), l.GetDefaultFilterChain()) {
		names := slices.Sorted(slices.Values(chain.GetFilterChainMatch().GetServerNames()))
		for _, filter := range chain.GetFilters() {
			packed, extension := filter.GetTypedConfig(), new(corev3.TypedExtensionConfig)
			if filter.GetConfigDiscovery() != nil && f.readNamed(api.ExtensionType, filter.GetName(), extension) {
				packed = extension.GetTypedConfig()
			}
			m := new(tcpproxyv3.TcpProxy)
			if packed.MessageIs(m) && packed.UnmarshalTo(m) == nil {
				label := strings.Join(names, " ")
				destinations[label] = append(destinations[label], destinationOf(m))
			}
		}
	}
	for label, list := range destinations {
		name := key + ", TCP"
		if label != "" {
			name += " for " + label
		}
		slices.Sort(list)
		f.facts[name] = strings.Join(slices.Compact(list), "; ")
	}
}

// destinationOf returns the cluster of a TCP proxy, or its weighted clusters as "NAME=WEIGHT",
// separated by spaces in their order.
func destinationOf(m *tcpproxyv3.TcpProxy) string {
	if m.GetWeightedClusters() == nil {
		return m.GetCluster()
	}
	var list []string
	for _, w := range m.GetWeightedClusters().GetClusters() {
		list = append(list, fmt.Sprintf("%s=%d", w.GetName(), w.GetWeight()))
	}
	return strings.Join(list, " ")
}

// addRoutes adds the domains and the routes of a route configuration. It does nothing if that was
// not received or cannot be decoded.
func (f reduction) addRoutes(name string) {
	c := new(routev3.RouteConfiguration)
	if !f.readNamed(api.RouteType, name, c) {
		return
	}
	for _, v := range c.GetVirtualHosts() {
		for _, domain := range v.GetDomains() {
			f.facts[fmt.Sprintf("route %s, domain %s", name, domain)] = "served"
			for i, r := range v.GetRoutes() {
				key := fmt.Sprintf("route %s, %s, %d", name, domain, i)
				f.facts[key+", match"] = compact(r.GetMatch())
				f.addAction(key, r)
			}
		}
	}
}

// addAction adds facts about the action, the header changes and the traffic settings of a route to
// f.facts, by names that begin with key. Empty values are left out. Filters of the route, and
// removed headers, are not considered.
func (f reduction) addAction(key string, r *routev3.Route) {
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
