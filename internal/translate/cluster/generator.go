package cluster

import (
	"fmt"
	"iter"
	"slices"

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

// Generator makes the clusters of Views, each distinct one once. It is for use by many goroutines.
type Generator struct {
	outbound *memo.Table[OutboundInput, *resource.Resource]
	inbound  *memo.Table[InboundInput, *resource.Resource]
	builtin  *memo.Table[BuiltinInput, *resource.Resource]
	handedOn *memo.Table[handedOnInput, *resource.Resource]
}

// NewGenerator makes a Generator that remembers nothing yet.
func NewGenerator() *Generator {
	return &Generator{
		outbound: memo.New(encodedOutbound),
		inbound:  memo.New(encodedInbound),
		builtin:  memo.New(encodedBuiltin),
		handedOn: memo.New(encodedHandedOn),
	}
}

// All gives the clusters of a View, in no particular order.
func (g *Generator) All(v *view.View) []*resource.Resource {
	return slices.Concat(g.Outbound(v), g.Resolved(v), g.Inbound(v), g.HandedOn(v))
}

// Outbound gives the clusters by which services are called that are told to proxies by EDS or not at all, and those that
// every proxy of the type has.
func (g *Generator) Outbound(v *view.View) []*resource.Resource {
	list := make([]*resource.Resource, 0, 2*len(v.Services))
	for _, name := range builtins(v) {
		list = append(list, g.builtin.Get(BuiltinInput{Name: name, Settings: v.Settings, Proxy: ProxyOf(v)}))
	}
	for _, svc := range v.Services {
		if !resolved(svc) {
			list = g.appendService(list, v, svc)
		}
	}
	return list
}

// Resolved gives the clusters of services whose names proxies resolve, which hold their endpoints.
func (g *Generator) Resolved(v *view.View) []*resource.Resource {
	var list []*resource.Resource
	for _, svc := range v.Services {
		if resolved(svc) {
			list = g.appendService(list, v, svc)
		}
	}
	return list
}

// Inbound gives the clusters by which proxies reach their own workload.
func (g *Generator) Inbound(v *view.View) []*resource.Resource {
	var list []*resource.Resource
	for _, in := range inbounds(v) {
		list = append(list, g.inbound.Get(in))
	}
	return list
}

// OutboundSince gives what Outbound gives that differs from an older View, d being all that changed since.
func (g *Generator) OutboundSince(old, v *view.View, d snapshot.Delta) (resource.Diff, bool) {
	return g.since(old, v, d, func(svc *mesh.Service) bool { return !resolved(svc) })
}

// ResolvedSince gives what Resolved gives that differs from an older View.
func (g *Generator) ResolvedSince(old, v *view.View, d snapshot.Delta) (resource.Diff, bool) {
	return g.since(old, v, d, resolved)
}

func (g *Generator) since(old, v *view.View, d snapshot.Delta, mine func(*mesh.Service) bool) (diff resource.Diff, ok bool) {
	differs, ok := v.Since(old, d)
	if !ok {
		return resource.Diff{}, false
	}
	hosts := differs.Hosts()
	for k := range d.Accounts {
		if checksAccounts(v, k) && !slices.Contains(hosts, k.Host) {
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

// Touched says whether a change may alter the clusters by which services are called. Endpoints alone do so only where the
// proxies check whose they are.
func Touched(v *view.View, _ *snapshot.Snapshot, d snapshot.Delta) bool {
	for k := range d.Accounts {
		if checksAccounts(v, k) {
			return true
		}
	}
	return !d.EndpointsOnly() && v.Touched(d)
}

// checksAccounts says whether the View's proxies see the service, and check whose endpoints it has.
func checksAccounts(v *view.View, k mesh.ServiceKey) bool {
	if v.Key.Client == (mesh.Credentials{}) {
		return false
	}
	svc := v.Service(k.Host)
	return svc != nil && svc.ServiceKey == k
}

// Computed is how many clusters were really made since the start, for tests and metrics.
func (g *Generator) Computed() uint64 {
	return g.outbound.Computed() + g.inbound.Computed() + g.builtin.Computed() + g.handedOn.Computed()
}

func resolved(svc *mesh.Service) bool {
	return svc.Resolution == mesh.DNS || svc.Resolution == mesh.DNSRoundRobin
}

func (g *Generator) appendService(list []*resource.Resource, v *view.View, svc *mesh.Service) []*resource.Resource {
	for in := range inputs(v, svc) {
		list = append(list, g.do(v, in))
	}
	return list
}

// inputs returns the clusters of a service: for each port that is captured and imported, one of the whole host and one of each
// subset. An Alias has none: calls to it go to the clusters of the service that it stands for.
func inputs(v *view.View, svc *mesh.Service) iter.Seq[OutboundInput] {
	return func(yield func(OutboundInput) bool) {
		if svc.Resolution == mesh.Alias {
			return
		}
		in := OutboundInput{Service: svc, Rule: v.DestinationRule(svc.Host), Settings: v.Settings, Proxy: ProxyOf(v)}
		subsets := subsetNames(in.rule())
		if dynamic(svc) { // there are no endpoints to choose from
			subsets = subsets[:1]
		}
		for _, port := range svc.Ports {
			if !port.Protocol.Captured() || dynamic(svc) && !destination.ByName(port.Protocol) || !v.ImportsPort(svc.Host, port.Number) {
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

// dynamic says that proxies find out for each request or connection where it goes. Raw TCP does not say for whom it is.
func dynamic(svc *mesh.Service) bool { return svc.Resolution == mesh.DynamicDNS }

// subsetNames gives the names of a rule's subsets, each once, behind that of the whole host, which is empty.
func subsetNames(rule *networking.DestinationRule) []string {
	names := make([]string, 1, 1+len(rule.GetSubsets()))
	for _, s := range rule.GetSubsets() {
		if !slices.Contains(names, s.GetName()) {
			names = append(names, s.GetName())
		}
	}
	return names
}

func (g *Generator) do(v *view.View, in OutboundInput) *resource.Resource {
	return g.outbound.Get(g.completed(v, in))
}

// completed gives an input with what it needs of endpoints.
func (g *Generator) completed(v *view.View, in OutboundInput) OutboundInput {
	if in.Proxy.Lacks != 0 {
		in.Proxy.Lacks &= in.usedFeatures() // most clusters use none, and are shared with proxies that lack nothing
	}
	if resolved(in.Service) {
		a := endpoint.InputFor(v, in.Service, in.Name())
		in.Endpoints, in.Caller = a.Endpoints, a.Caller
	}
	if in.byAddress(policy.Of(in.Settings.Mesh, in.rule(), in.Subset, in.Port)) {
		in.AllTLS = v.Endpoints(in.Service).AllTLS()
	}
	if in.mutualBetweenProxies() {
		in.Accounts = encodeAccounts(in.Service, v.Endpoints(in.Service))
	}
	return in
}

func encodedOutbound(in OutboundInput) *resource.Resource {
	return encoded(Outbound(in), from(in.Service, in.Rule)...)
}

func encodedInbound(in InboundInput) *resource.Resource {
	var sidecar []config.Key
	if in.Sidecar != nil {
		sidecar = append(sidecar, in.Sidecar.Key)
	}
	return encoded(Inbound(in), from(in.Service, in.Rule, sidecar...)...)
}

func encodedBuiltin(in BuiltinInput) *resource.Resource { return encoded(Builtin(in)) }

func encoded(c *clusterv3.Cluster, from ...config.Key) *resource.Resource {
	r, err := resource.Encode(c.GetName(), api.ClusterType, c, from...)
	if err != nil {
		panic(fmt.Sprintf("cluster %q: %v", c.GetName(), err)) // messages of our own making always encode
	}
	return r
}
