package cluster

import (
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
	"github.com/meshpilot/meshpilot/internal/view"
)

// Generator makes the clusters of Views, each distinct one once. It is for use by many goroutines.
type Generator struct {
	outbound *memo.Table[OutboundInput, *resource.Resource]
	inbound  *memo.Table[InboundInput, *resource.Resource]
	builtin  *memo.Table[BuiltinInput, *resource.Resource]
}

// NewGenerator makes a Generator that remembers nothing yet.
func NewGenerator() *Generator {
	return &Generator{
		outbound: memo.New[OutboundInput, resource.Resource](),
		inbound:  memo.New[InboundInput, resource.Resource](),
		builtin:  memo.New[BuiltinInput, resource.Resource](),
	}
}

// All gives the clusters of a View, in no particular order.
func (g *Generator) All(v *view.View) []*resource.Resource {
	s := g.stable(v)
	list := make([]*resource.Resource, len(s.clusters), len(s.clusters)+len(s.resolved)+len(v.Inbound)+len(v.Ingress)+len(builtins(v.Key.Type)))
	copy(list, s.clusters)
	for _, svc := range s.resolved {
		list = g.appendService(list, v, svc)
	}
	for _, name := range builtins(v.Key.Type) {
		list = append(list, g.builtin.Do(BuiltinInput{Name: name, Settings: v.Settings, Proxy: ProxyOf(v)}, encodedBuiltin))
	}
	for _, in := range inbounds(v) {
		list = append(list, g.inbound.Do(in, encodedInbound))
	}
	return list
}

// Computed is how many clusters were really made since the start, for tests and metrics.
func (g *Generator) Computed() uint64 {
	return g.outbound.Computed() + g.inbound.Computed() + g.builtin.Computed()
}

// stableKey names the outbound clusters that have nothing to do with endpoints: all Views that agree in it have the same.
type stableKey struct {
	namespace string
	sidecar   config.Key
	proxy     Proxy
}

type stable struct {
	clusters []*resource.Resource
	// resolved are the services whose clusters hold their endpoints, and are made for each snapshot.
	resolved []*mesh.Service
}

func (g *Generator) stable(v *view.View) *stable {
	k := stableKey{v.Key.Namespace, v.Key.Sidecar, ProxyOf(v)}
	return snapshot.Derive(v.Snapshot.Derived, k, func() *stable {
		s := new(stable)
		for _, svc := range v.Services {
			if resolved(svc) {
				s.resolved = append(s.resolved, svc)
				continue
			}
			s.clusters = g.appendService(s.clusters, v, svc)
		}
		return s
	})
}

func resolved(svc *mesh.Service) bool {
	return svc.Resolution == mesh.DNS || svc.Resolution == mesh.DNSRoundRobin
}

// appendService appends the clusters of a service: for each port that is captured one of the whole host and one of each
// subset. An Alias has none: calls to it go to the clusters of the service that it stands for.
func (g *Generator) appendService(list []*resource.Resource, v *view.View, svc *mesh.Service) []*resource.Resource {
	if svc.Resolution == mesh.Alias {
		return list
	}
	in := OutboundInput{Service: svc, Rule: v.DestinationRule(svc.Host), Settings: v.Settings, Proxy: ProxyOf(v)}
	for _, port := range svc.Ports {
		if !port.Protocol.Captured() {
			continue
		}
		in.Port, in.Subset = port.Number, ""
		list = append(list, g.do(v, in))
		var seen map[string]bool
		for _, s := range in.rule().GetSubsets() {
			if s.GetName() == "" || seen[s.GetName()] {
				continue
			}
			if seen == nil {
				seen = make(map[string]bool, len(in.rule().GetSubsets()))
			}
			seen[s.GetName()] = true
			in.Subset = s.GetName()
			list = append(list, g.do(v, in))
		}
	}
	return list
}

func (g *Generator) do(v *view.View, in OutboundInput) *resource.Resource {
	if resolved(in.Service) {
		a := endpoint.InputFor(v, in.Service, in.Name())
		in.Endpoints, in.Caller = a.Endpoints, a.Caller
	}
	return g.outbound.Do(in, encodedOutbound)
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
