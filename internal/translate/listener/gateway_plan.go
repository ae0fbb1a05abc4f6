package listener

import (
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// gatewayPlan is the planned listeners of a gateway.
type gatewayPlan struct {
	specs    []Spec // sorted by port and address
	problems []config.Problem
}

// gatewayPlanner plans them.
type gatewayPlanner struct {
	router
	problems []config.Problem
	edge     *GatewayHTTP
	// proxyProtocol is set if connections begin with a PROXY protocol header.
	proxyProtocol bool
	// credentials is where external credentials of all servers come from.
	credentials credentials

	// The following fields belong to the current listener.
	listener *view.GatewayListener
	spec     *Spec
	// names are the server names that are taken, by rule; the zero Key for a server itself.
	names map[string]config.Key
}

// planGateway plans the listeners of a gateway's View, in the order of v.Gateway().Listeners. It
// also returns the Problems of the Gateways, servers and routes, sorted and without duplicates. It
// is not cached.
func planGateway(v *view.View) *gatewayPlan {
	merged := v.Gateway()
	in := &outboundInput{
		class:           classOf(v.Key),
		listenerContext: listenerContext{settings: v.Settings, peers: v.Key.ClientCredentials != mesh.Credentials{}},
	}
	in.addServerTargets(v)
	p := &gatewayPlanner{
		router:        newRouter(v, in),
		edge:          edgeOf(v),
		proxyProtocol: v.GatewayTopology().GetProxyProtocol() != nil,
		credentials:   credentialsOf(v),
	}
	out := new(gatewayPlan)
	for _, l := range merged.Listeners {
		out.specs = append(out.specs, p.planListener(l)...)
	}
	out.problems = slices.Concat(merged.Problems, p.problems)
	slices.SortFunc(out.problems, config.Problem.Compare)
	out.problems = slices.Compact(out.problems)
	return out
}

// addServerTargets adds to in.targets the services and DestinationRules of destinations in
// VirtualServices that are bound to servers which forward connections. Servers for HTTP are left
// out, because their destinations are in RDS.
func (in *outboundInput) addServerTargets(v *view.View) {
	seen, bound := map[mesh.Hostname]bool{}, map[string]bool{}
	for _, l := range v.Gateway().Listeners {
		for _, s := range l.Servers {
			if s.ServesHTTP() || bound[s.Gateway] {
				continue
			}
			bound[s.Gateway] = true
			for _, vs := range v.VirtualServicesOf(s.Gateway) {
				in.addTargets(v, vs, seen)
			}
		}
	}
}

// addProblem adds a Warning about a field of the object key.
func (p *gatewayPlanner) addProblem(key config.Key, field, reason string) {
	p.problems = append(p.problems, warning(key, field, reason))
}

// planListener plans a listener, and another one for HTTP/3 if it is enabled; a listener for UDP is
// planned by planUDP. It returns nil if no chain is left: the port stays closed. It sets
// p.listener, p.spec and p.names for the other methods, and adds Warnings about servers and routes
// to p.problems.
func (p *gatewayPlanner) planListener(l *view.GatewayListener) []Spec {
	p.listener, p.names = l, map[string]config.Key{}
	p.spec = &Spec{Port: l.Port, Gateway: true, Bind: true, ProxyProtocol: p.proxyProtocol}
	switch {
	case config.IsSocket(l.Bind):
		p.spec.Address, p.spec.Port = l.Bind, 0
	case l.Bind != "":
		p.spec.Address = l.Bind
	default:
		p.spec.Address, p.spec.More = p.family.wildcard[0], p.family.wildcard[1:]
	}
	p.spec.Name = listenerName(p.spec.Address, l.Port)
	if l.UDP {
		return p.planUDP(l.Servers[0])
	}
	for _, s := range l.Servers {
		if !s.IsPassthrough() {
			for _, n := range s.ServerNames {
				p.names[n] = config.Key{}
			}
		}
	}
	if l.Sharing == view.ByHost {
		p.addRequests(l)
	} else {
		for _, s := range l.Servers {
			p.addServer(s)
		}
	}
	return p.finishListener(l)
}

// finishListener names and sorts the chains of p.spec, and returns it, with its copy over QUIC if l
// has HTTP/3. It returns nil if p.spec has no chains. Listeners whose servers share an address by
// server name inspect TLS even with one chain.
func (p *gatewayPlanner) finishListener(l *view.GatewayListener) []Spec {
	s := *p.spec
	if len(s.Chains) == 0 && s.Default.HTTP == nil && s.Default.TCP == nil {
		return nil
	}
	for i := range s.Chains {
		c := &s.Chains[i]
		c.Name = s.Name + chainName(c.Match)
	}
	slices.SortFunc(s.Chains, func(a, b Chain) int { return strings.Compare(a.Name, b.Name) })
	// Even with one chain: a change of listener filters would drain all connections.
	s.TLSInspector = l.Sharing == view.ByServerName
	s.From = sortedKeys(s.From)
	if !l.QUIC {
		return []Spec{s}
	}
	return []Spec{s, overQUIC(&s)}
}

// addRequests sets the default chain of the current listener, for plaintext requests that are
// routed by host. It adds the Gateways of all servers to the listener's From.
func (p *gatewayPlanner) addRequests(l *view.GatewayListener) {
	first := l.Servers[0]
	p.spec.Default = Chain{Name: p.spec.Name, HTTP: &HTTP{
		StatPrefix: p.statPrefix(), Route: first.Route, GRPCWeb: first.Protocol == mesh.GRPCWeb,
		Gateway: p.edgeFor(l.Servers...),
	}}
	for _, s := range l.Servers {
		p.spec.From = append(p.spec.From, s.Object.Key)
	}
}

// statPrefix returns the prefix of the HTTP statistics of the current listener (p.listener), by its
// address and port.
func (p *gatewayPlanner) statPrefix() string {
	return statPrefix(mesh.Outbound, p.spec.Address, p.listener.Port)
}

// addServer adds the chains of a server that shares its address with others by server name, or has
// it alone: by its mode AUTO_PASSTHROUGH or PASSTHROUGH, for HTTP, or else for connections. A
// server whose certificates the gateway may not read is skipped, with a Problem (isWithheld). Other
// defects of its credentials are only Problems (serverTLS).
func (p *gatewayPlanner) addServer(s *view.GatewayServer) {
	switch {
	case p.isWithheld(s):
	case s.IsAutoPassthrough():
		p.addAutoPassthrough(s)
	case s.IsPassthrough():
		p.addPassthrough(s)
	case s.ServesHTTP():
		prefix := p.statPrefix()
		if n := s.Spec.GetName(); n != "" {
			prefix = n + ";"
		}
		p.addChain(
			s,
			Chain{
				Match: Match{SNI: s.ServerNames},
				TLS:   p.serverTLS(s),
				HTTP:  &HTTP{StatPrefix: prefix, Route: s.Route, Gateway: p.edgeFor(s)},
			},
		)
	default:
		p.addConnections(s)
	}
}

// addChain appends a filter chain of server s to the current listener. A chain without server names
// (SNI), or with "*" among them, becomes the listener's default chain instead: it replaces an
// earlier default, its Match is cleared, and it is named after the listener. addChain also adds the
// key of the server's Gateway and the keys in from to the listener's From.
func (p *gatewayPlanner) addChain(s *view.GatewayServer, c Chain, from ...config.Key) {
	p.spec.From = append(append(p.spec.From, s.Object.Key), from...)
	if len(c.Match.SNI) > 0 && !slices.Contains(c.Match.SNI, anyName) {
		p.spec.Chains = append(p.spec.Chains, c)
		return
	}
	if c.Name, c.Match = p.spec.Name, (Match{}); c.TCP != nil {
		c.Name += "_tcp"
	}
	p.spec.Default = c
}
