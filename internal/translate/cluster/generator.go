package cluster

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
	"github.com/meshpilot/meshpilot/internal/translate/policy"
)

// Generator generates the clusters of Views and caches each distinct one. It is safe for concurrent
// use.
type Generator struct {
	outbound *memo.Table[OutboundInput, *resource.Resource]
	inbound  *memo.Table[InboundInput, *resource.Resource]
	builtin  *memo.Table[BuiltinInput, *resource.Resource]
	sniDNATs *memo.Table[sniDNATInput, *resource.Resource]
	udp      *memo.Table[udpInput, *resource.Resource]
}

// NewGenerator returns a Generator with empty caches.
func NewGenerator() *Generator {
	return &Generator{
		outbound: memo.New(encodeOutbound),
		inbound:  memo.New(encodeInbound),
		builtin:  memo.New(encodeBuiltin),
		sniDNATs: memo.New(encodeSNIDNAT),
		udp:      memo.New(encodeUDP),
	}
}

// All returns the clusters of a View, unsorted.
func (g *Generator) All(v *view.View) []*resource.Resource {
	return slices.Concat(g.Outbound(v), g.Resolved(v), g.Inbound(v), g.SNIDNATClusters(v), g.UDPClusters(v))
}

// Outbound returns the built-in clusters of the proxy's type, then the clusters of all services, in
// the order of v.Services. Clusters that proxies resolve by DNS are not included (Resolved). The
// clusters embed no endpoints: they use EDS, the original destination or, for DYNAMIC_DNS, the host
// of each request or connection.
func (g *Generator) Outbound(v *view.View) []*resource.Resource {
	list := make([]*resource.Resource, 0, 2*len(v.Services))
	for _, name := range builtinNames(v) {
		list = append(list, g.builtin.Get(BuiltinInput{Name: name, Settings: v.Settings, Proxy: ProxyOf(v)}))
	}
	for _, svc := range v.Services {
		if !isResolved(svc) {
			list = g.appendService(list, v, svc)
		}
	}
	return list
}

// Resolved returns the clusters of services whose endpoints have names that proxies resolve
// (resolution DNS or DNSRoundRobin). They embed their endpoints.
func (g *Generator) Resolved(v *view.View) []*resource.Resource {
	var list []*resource.Resource
	for _, svc := range v.Services {
		if isResolved(svc) {
			list = g.appendService(list, v, svc)
		}
	}
	return list
}

// Inbound returns the clusters through which the proxies of a View connect to their own workload
// (inboundInputs). It returns nil for proxies that are not sidecars, and without interception
// unless the Sidecar has ingress listeners.
func (g *Generator) Inbound(v *view.View) []*resource.Resource {
	var list []*resource.Resource
	for _, in := range inboundInputs(v) {
		list = append(list, g.inbound.Get(in))
	}
	return list
}

// OutboundSince returns the difference between the results of Outbound for old and v; d has all
// changes in between. The bool is false if the difference is unknown, and the caller must use
// Outbound.
func (g *Generator) OutboundSince(old, v *view.View, d snapshot.Delta) (resource.Diff, bool) {
	return g.clustersSince(old, v, d, func(svc *mesh.Service) bool { return !isResolved(svc) })
}

// ResolvedSince returns the difference between the results of Resolved for old and v; d has all
// changes in between. The bool is false if the difference is unknown, and the caller must use
// Resolved.
func (g *Generator) ResolvedSince(old, v *view.View, d snapshot.Delta) (resource.Diff, bool) {
	return g.clustersSince(old, v, d, isResolved)
}

// clustersSince returns the difference between the clusters in old and v of the services for which
// mine returns true; d has all changes in between. ok is false if it is unknown. diff.Updated may
// contain unchanged clusters, and diff.Removed names that did not exist.
func (g *Generator) clustersSince(
	old, v *view.View,
	d snapshot.Delta,
	mine func(*mesh.Service) bool,
) (diff resource.Diff, ok bool) {
	differs, ok := v.DiffSince(old, d)
	if !ok {
		return resource.Diff{}, false
	}
	hosts := differs.Hosts()
	for k := range d.Accounts {
		if verifiesAccounts(v, k) && !slices.Contains(hosts, k.Host) {
			hosts = append(hosts[:len(hosts):len(hosts)], k.Host)
		}
	}
	for _, host := range hosts {
		var there map[string]bool
		if svc := v.Service(host); svc != nil && mine(svc) {
			at := len(diff.Updated)
			diff.Updated = g.appendService(diff.Updated, v, svc)
			there = make(map[string]bool, len(diff.Updated)-at)
			for _, r := range diff.Updated[at:] {
				there[r.Name] = true
			}
		}
		if was := old.Service(host); was != nil && mine(was) {
			for in := range inputs(old, was) {
				if n := in.Name().String(); !there[n] {
					diff.Removed = append(diff.Removed, n)
				}
			}
		}
	}
	return diff, true
}

// Touched reports whether a change may alter the outbound clusters of a View. A change of endpoints
// alone does so only if it changes their accounts and the proxies verify these.
func Touched(v *view.View, _ *snapshot.Snapshot, d snapshot.Delta) bool {
	for k := range d.Accounts {
		if verifiesAccounts(v, k) {
			return true
		}
	}
	return !d.EndpointsOnly() && v.AreServicesAffectedBy(d)
}

// ResolvedTouched reports whether a change may alter the result of Resolved for a View; s is the
// snapshot after it. Most services use EDS, so of the changes that pass Touched few remain. If objects
// of other kinds than services and DestinationRules changed, ResolvedTouched returns what Touched does.
func ResolvedTouched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	if !Touched(v, s, d) {
		return false
	}
	if d.All {
		return true
	}
	for k := range d.Configs {
		if k.Kind != api.ServiceEntry && k.Kind != api.Service && k.Kind != api.DestinationRule {
			return true
		}
	}
	for k := range d.Services {
		if isHostResolved(v, k.Host) || slices.ContainsFunc(s.NamespacesOf(k.Host), func(namespace string) bool {
			return isResolved(s.Service(mesh.ServiceKey{Namespace: namespace, Host: k.Host}))
		}) {
			return true
		}
	}
	for host := range d.Rules {
		if host.IsWildcard() || isHostResolved(v, host) {
			return true
		}
	}
	for k := range d.Accounts {
		if isHostResolved(v, k.Host) {
			return true
		}
	}
	return false
}

// isHostResolved reports whether the View has a service of the host whose endpoints have names that
// proxies resolve.
func isHostResolved(v *view.View, host mesh.Hostname) bool {
	svc := v.Service(host)
	return svc != nil && isResolved(svc)
}

// verifiesAccounts reports whether the View's proxies verify the accounts of servers, because they
// have client certificates, and call the service k. It returns false if the View's service of the
// host k.Host is another one.
func verifiesAccounts(v *view.View, k mesh.ServiceKey) bool {
	if v.Key.ClientCredentials == (mesh.Credentials{}) {
		return false
	}
	svc := v.Service(k.Host)
	return svc != nil && svc.ServiceKey == k
}

// Computed returns how many clusters have been generated since the start; clusters found in a cache
// are not counted.
func (g *Generator) Computed() uint64 {
	return g.outbound.Computed() + g.inbound.Computed() + g.builtin.Computed() + g.sniDNATs.Computed() + g.udp.Computed()
}

// isResolved reports whether proxies resolve the names of the service's endpoints by DNS.
func isResolved(svc *mesh.Service) bool {
	return svc.Resolution == mesh.DNS || svc.Resolution == mesh.DNSRoundRobin
}

// appendService appends the clusters of a service in a View (inputs) to list, and returns it.
func (g *Generator) appendService(list []*resource.Resource, v *view.View, svc *mesh.Service) []*resource.Resource {
	for in := range inputs(v, svc) {
		list = append(list, g.outboundCluster(v, in))
	}
	return list
}

// inputs returns the inputs of the clusters of a service: for each port that is captured and
// imported, one of the whole host and one of each subset. Fields that depend on endpoints are not
// set (complete). An alias has none: calls to it use the clusters of the service that it refers to.
// A dynamic service has no subsets, and only ports of HTTP and TLS.
func inputs(v *view.View, svc *mesh.Service) iter.Seq[OutboundInput] {
	return func(yield func(OutboundInput) bool) {
		if svc.Resolution == mesh.Alias {
			return
		}
		in := OutboundInput{Service: svc, Rule: v.DestinationRule(svc.Host), Settings: v.Settings, Proxy: ProxyOf(v)}
		subsets := subsetNames(in.destinationRule())
		if isDynamic(svc) { // A dynamic cluster has no endpoints to select.
			subsets = subsets[:1]
		}
		for _, port := range svc.Ports {
			if !port.Protocol.Captured() || isDynamic(svc) && !destination.ByName(port.Protocol) ||
				!v.ImportsPort(svc.Host, port.Number) {
				continue
			}
			in.Port = port.Number
			for _, in.Subset = range subsets {
				if !yield(in) {
					return
				}
			}
		}
	}
}

// isDynamic reports whether proxies resolve the host that each request or TLS connection names
// (resolution DynamicDNS).
func isDynamic(svc *mesh.Service) bool { return svc.Resolution == mesh.DynamicDNS }

// subsetNames returns "" for the whole host, then the names of the rule's subsets, without
// duplicates. rule may be nil.
func subsetNames(rule *networking.DestinationRule) []string {
	names := make([]string, 1, 1+len(rule.GetSubsets()))
	for _, s := range rule.GetSubsets() {
		if !slices.Contains(names, s.GetName()) {
			names = append(names, s.GetName())
		}
	}
	return names
}

// outboundCluster returns the encoded cluster of in, completed with its endpoints (complete).
func (g *Generator) outboundCluster(v *view.View, in OutboundInput) *resource.Resource {
	return g.outbound.Get(g.complete(v, in))
}

// complete returns in with the fields set that depend on endpoints (Endpoints, Caller, PortTLS,
// Accounts), as far as the cluster uses them. It clears Proxy.CredentialServer and the missing
// features (Proxy.Lacks) that the cluster would not use, so that more proxies share it.
func (g *Generator) complete(v *view.View, in OutboundInput) OutboundInput {
	if in.Proxy.Lacks != 0 {
		// Most clusters use none, and are shared with proxies that lack nothing.
		in.Proxy.Lacks &= in.usedFeatures()
	}
	if isResolved(in.Service) {
		a := endpoint.InputFor(v, in.Service, in.Name())
		in.Endpoints, in.Caller = a.Endpoints, a.Caller
	}
	p := policy.Of(in.Settings.Mesh, in.destinationRule(), in.Subset, in.Port)
	if !strings.HasPrefix(p.GetTls().GetCredentialName(), mesh.ExternalPrefix) {
		in.Proxy.CredentialServer = false
	}
	in.PortTLS = in.portTLS(p, v.Endpoints(in.Service))
	if in.usesMeshTLS() {
		in.Accounts = encodeAccounts(in.Service, v.Endpoints(in.Service))
	}
	return in
}

// encodeOutbound returns the encoded outbound cluster, which derives from the service and its
// DestinationRule.
func encodeOutbound(in OutboundInput) *resource.Resource {
	return encodeCluster(Outbound(in), objectKeys(in.Service, in.Rule)...)
}

// encodeInbound returns the encoded inbound cluster, which derives from the service, its
// DestinationRule and the Sidecar, if there is one.
func encodeInbound(in InboundInput) *resource.Resource {
	var sidecar []config.Key
	if in.Sidecar != nil {
		sidecar = append(sidecar, in.Sidecar.Key)
	}
	return encodeCluster(Inbound(in), objectKeys(in.Service, in.Rule, sidecar...)...)
}

// encodeBuiltin returns the encoded cluster of Builtin, which derives from no object.
func encodeBuiltin(in BuiltinInput) *resource.Resource { return encodeCluster(Builtin(in)) }

// encodeCluster returns the encoded cluster, which derives from the objects from. It panics if the
// cluster cannot be encoded.
func encodeCluster(c *clusterv3.Cluster, from ...config.Key) *resource.Resource {
	r, err := resource.Encode(c.GetName(), api.ClusterType, c, from...)
	if err != nil {
		panic(fmt.Sprintf("cluster %q: %v", c.GetName(), err)) // Generated messages always encode.
	}
	return r
}
