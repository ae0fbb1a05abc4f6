package listener

import (
	"cmp"
	"iter"
	"slices"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/translate/policy"
)

// class names the Views whose outbound listeners are the same.
type class struct {
	namespace, labels string
	own               string // Key.Own
	sidecar           config.Key
	rules             snapshot.RuleNames
	ipv4, ipv6        bool
	// allocated proxies know the addresses that services without any were given.
	allocated bool
	home      mesh.ClusterID
	// direct proxies are not handed captured connections: applications call their listeners (interception NONE).
	direct bool
	// inline proxies have TCP proxies in their listeners wherever connections are routed: EnvoyFilters look for them there.
	inline bool
	// telemetry and logService say what is told of traffic.
	telemetry  snapshot.TelemetryKeys
	logService bool
	// peers proxies call others with mutual TLS.
	peers   bool
	plugins snapshot.PluginNames
}

func classOf(k view.Key) class {
	return class{
		namespace: k.Namespace, labels: k.Labels, own: k.Own, sidecar: k.Sidecar, rules: k.Rules, ipv4: k.IPv4, ipv6: k.IPv6,
		allocated: k.Allocated, home: k.Home, direct: k.Interception == noInterception, inline: k.Patches.Listeners != "",
		telemetry: k.Telemetry, logService: k.LogService, peers: k.Client != mesh.Credentials{},
		plugins: k.Plugins,
	}
}

// noInterception is the mode of proxies to which applications connect themselves (Key.Interception).
const noInterception = "NONE"

// outboundInput is all that the outbound listeners of a class depend on. Whoever plans them reads nothing else of a View
// but names of services, which are the same where the services are.
type outboundInput struct {
	class class
	around
	sidecar *config.Config
	// unknown is the cluster of connections that are nobody's.
	unknown string
	// byName says that DNS tells where requests go that are nobody's.
	byName bool
	egress []egressInput
	// targets are the DestinationRules of hosts to which TCP and TLS routes lead.
	targets []target
}

// egressInput is one egress listener: of the Sidecar, or (nil) the one for everything.
type egressInput struct {
	listener *networking.IstioEgressListener
	services []serviceInput // sorted by hostname, one for each
	// order is the services' places in the list, older ones first: the order in which they compete.
	order []int32
	// rules are the VirtualServices that have TCP or TLS routes, in the order in which they are tried.
	rules []*snapshot.VirtualService
}

// serviceInput is a service and what else shapes its listeners.
type serviceInput struct {
	service *mesh.Service
	// rule is nil where it says nothing of TCP connections.
	rule *snapshot.DestinationRule
	// endpoints is set where each of them has a listener.
	endpoints *snapshot.EndpointSet
}

// sortByAge finds the order, once.
func (e *egressInput) sortByAge() {
	if e.order != nil {
		return
	}
	e.order = make([]int32, len(e.services))
	for i := range e.order {
		e.order[i] = int32(i)
	}
	slices.SortFunc(e.order, e.older)
}

// older compares the services at two places of the list by age.
func (e *egressInput) older(i, j int32) int {
	a, b := e.services[i].service, e.services[j].service
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Namespace, b.Namespace))
}

// byAge gives the services in their order.
func (e *egressInput) byAge() iter.Seq[serviceInput] {
	return func(yield func(serviceInput) bool) {
		for _, i := range e.order {
			if !yield(e.services[i]) {
				return
			}
		}
	}
}

type target struct {
	host mesh.Hostname
	rule *snapshot.DestinationRule
}

func (g *Generator) inputFor(v *view.View) *outboundInput {
	in := &outboundInput{class: classOf(v.Key), around: g.around(v), sidecar: v.Sidecar, unknown: destination.Unknown(v), byName: v.Unknown().ByName}
	seen := map[mesh.Hostname]bool{}
	for _, e := range v.Egress {
		x := egressInput{listener: e.Listener, services: make([]serviceInput, len(e.Services))}
		for i, svc := range e.Services {
			x.services[i] = serviceInputFor(v, svc)
		}
		for _, vs := range e.VirtualServices {
			if len(vs.Spec.GetTcp())+len(vs.Spec.GetTls()) > 0 {
				x.rules = append(x.rules, vs)
				in.addTargets(v, vs, seen)
			}
		}
		in.egress = append(in.egress, x)
	}
	return in
}

func serviceInputFor(v *view.View, svc *mesh.Service) serviceInput {
	in := serviceInput{service: svc}
	if !slices.ContainsFunc(svc.Ports, forwarded) || svc.Resolution == mesh.Alias {
		return in
	}
	in.rule = shapingRule(v, svc.Host)
	if svc.Resolution == mesh.Passthrough && len(svc.Addresses) == 0 {
		in.endpoints = v.Endpoints(svc)
	}
	return in
}

// forwarded says that connections to a port are, or may turn out to be, forwarded unread.
func forwarded(p mesh.Port) bool { return p.Protocol.Captured() && !p.Protocol.IsHTTP() }

func (in *outboundInput) addTargets(v *view.View, vs *snapshot.VirtualService, seen map[mesh.Hostname]bool) {
	note := func(list []*networking.RouteDestination) {
		for _, d := range list {
			host := destination.Host(v, vs.Resolve(d.GetDestination().GetHost()))
			if seen[host] {
				continue
			}
			seen[host] = true
			if r := shapingRule(v, host); r != nil {
				in.targets = append(in.targets, target{host, r})
			}
		}
	}
	for _, r := range vs.Spec.GetTcp() {
		note(r.GetRoute())
	}
	for _, r := range vs.Spec.GetTls() {
		note(r.GetRoute())
	}
}

// shapingRule gives the DestinationRule of a host if it says something that TCP listeners follow.
func shapingRule(v *view.View, host mesh.Hostname) *snapshot.DestinationRule {
	r := v.DestinationRule(host)
	if r == nil {
		return nil
	}
	// Where the mesh has a default for the pool, one that says nothing of the sort takes its place all the same.
	pools := v.Settings.Mesh.GetDefaultTrafficPolicy().GetConnectionPool() != nil
	shapes := policyShapes(r.Spec.GetTrafficPolicy(), pools)
	for _, s := range r.Spec.GetSubsets() {
		shapes = shapes || policyShapes(s.GetTrafficPolicy(), pools)
	}
	if !shapes {
		return nil
	}
	return r
}

func policyShapes(p *networking.TrafficPolicy, pools bool) bool {
	shapes := func(pool *networking.ConnectionPoolSettings, lb *networking.LoadBalancerSettings) bool {
		tcp := pool.GetTcp()
		return pools && pool != nil || tcp.GetIdleTimeout() != nil || tcp.GetMaxConnectionDuration() != nil ||
			lb.GetConsistentHash().GetUseSourceIp()
	}
	return p.GetTunnel() != nil || shapes(p.GetConnectionPool(), p.GetLoadBalancer()) || slices.ContainsFunc(p.GetPortLevelSettings(),
		func(s *networking.TrafficPolicy_PortTrafficPolicy) bool {
			return shapes(s.GetConnectionPool(), s.GetLoadBalancer())
		})
}

// follow makes a TCP proxy follow the traffic policy of the cluster that it leads to.
func (in *outboundInput) follow(c *routed, r *snapshot.DestinationRule, subset string, port uint32) {
	var spec *networking.DestinationRule
	if r != nil {
		spec = r.Spec
		c.from = append(c.from, r.From...)
	}
	p := policy.Of(in.settings.Mesh, spec, subset, port)
	c.tcp.SourceIPHash = p.GetLoadBalancer().GetConsistentHash().GetUseSourceIp()
	pool := p.GetConnectionPool().GetTcp()
	c.tcp.IdleTimeoutMS = milliseconds(pool.GetIdleTimeout())
	c.tcp.MaxDurationMS = max(milliseconds(pool.GetMaxConnectionDuration()), 0)
	tunnel := policy.TunnelOf(spec, subset)
	c.tcp.Tunnel, c.tcp.TunnelByPost = tunnel.Target, tunnel.Post
}

// milliseconds gives a duration as TCP has it: 0 is unset, negative is none at all.
func milliseconds(d *durationpb.Duration) int64 {
	switch {
	case d == nil:
		return 0
	case d.AsDuration() < time.Millisecond:
		return -1
	default:
		return d.AsDuration().Milliseconds()
	}
}

// equal says whether the listeners of two inputs of one class are the same. What else there is in them follows from the
// settings and the Sidecar, which are rows.
func (in *outboundInput) equal(o *outboundInput) bool {
	return in.around == o.around && in.sidecar == o.sidecar && in.unknown == o.unknown && slices.Equal(in.targets, o.targets) &&
		slices.EqualFunc(in.egress, o.egress, func(a, b egressInput) bool {
			return slices.Equal(a.services, b.services) && slices.Equal(a.rules, b.rules)
		})
}
