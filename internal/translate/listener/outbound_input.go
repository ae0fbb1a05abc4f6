package listener

import (
	"cmp"
	"iter"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
	"github.com/meshpilot/meshpilot/internal/translate/telemetry"
)

// listenerContext is everything that encoded listeners depend on besides the Spec.
type listenerContext struct {
	settings  *snapshot.Settings
	telemetry *telemetry.Telemetry
	// peers is set if the proxy calls others with mutual TLS.
	peers bool
	// access has the filters of access policies; nil for the listeners of the workload's own calls.
	access *accessFilters
	// plugins are the places of plugins.
	plugins plugin.Places
	// onDemand is set if the proxies fetch clusters on demand.
	onDemand bool
}

// contextFor returns the context of outbound listeners, which have no access policies.
func (g *Generator) contextFor(v *view.View) listenerContext {
	return listenerContext{
		settings:  v.Settings,
		telemetry: g.telemetry.For(v),
		peers:     v.Key.ClientCredentials != mesh.Credentials{},
		plugins:   plugin.Of(v),
		onDemand:  v.Key.OnDemand,
	}
}

// class identifies the Views with equal outbound listeners.
type class struct {
	namespace, labels string
	// own is Key.ProxyConfigOverrides.
	own        string
	sidecar    config.Key
	rules      snapshot.RuleNames
	ipv4, ipv6 bool
	// allocated is set if the proxies know the allocated addresses of services without any.
	allocated bool
	// home is Key.VIPCluster.
	home mesh.ClusterID
	// direct is set for proxies without traffic capture: applications connect to their listeners
	// (interception NONE).
	direct bool
	// inline is set if listeners contain TCP proxies instead of referencing them by ECDS, because
	// EnvoyFilters match them there.
	inline bool
	// telemetry and logService identify the observability configuration.
	telemetry  snapshot.TelemetryKeys
	logService bool
	// peers is set if the proxies call others with mutual TLS, onDemand if they fetch clusters on
	// demand.
	peers, onDemand bool
	// unprivileged is set if the proxies cannot listen on ports below 1024.
	unprivileged bool
	plugins      snapshot.PluginNames
}

// classOf returns the fields of k on which outbound listeners depend. Views of one class share
// them.
func classOf(k view.Key) class {
	return class{
		namespace: k.Namespace,
		labels:    k.SourceSelectors,
		own:       k.ProxyConfigOverrides,
		sidecar:   k.Sidecar,
		rules:     k.DestinationRules,
		ipv4:      k.IPv4,
		ipv6:      k.IPv6,
		allocated: k.KnowsAllocatedAddresses,
		home:      k.VIPCluster,
		direct:    view.IsDirect(k),
		inline:    k.EnvoyFilterPatches.Listeners != "",
		telemetry: k.Telemetry, logService: k.LogService, peers: k.ClientCredentials != mesh.Credentials{},
		onDemand: k.OnDemand, unprivileged: k.Unprivileged,
		plugins: k.Plugins,
	}
}

// noInterception is the mode of proxies without traffic capture (Key.Interception).
const noInterception = "NONE"

// outboundInput is everything that the outbound listeners of a class depend on. The planner reads
// nothing else of a View but names of services, which are equal if the services are.
type outboundInput struct {
	class class
	listenerContext
	sidecar *config.Config
	// unknown is the cluster of connections to unknown destinations.
	unknown string
	// byName is set if the destinations of requests to unknown hosts are resolved by DNS.
	byName bool
	egress []egressInput
	// targets are the hosts that TCP and TLS routes reference. They need not be imported.
	targets []target
}

// egressInput is one egress listener of the Sidecar; without a Sidecar listener is nil.
type egressInput struct {
	listener *networking.IstioEgressListener
	services []serviceInput // sorted by hostname, without duplicates
	// order has the indexes of services by age, the oldest first, which is their precedence.
	order []int32
	// rules are the VirtualServices with TCP or TLS routes or with routes that apply to addresses,
	// by precedence.
	rules []*snapshot.VirtualService
}

// sortByAge sets e.order to the indexes of services by age, the oldest first (compareAge), unless
// it is set.
func (e *egressInput) sortByAge() {
	if e.order != nil {
		return
	}
	e.order = make([]int32, len(e.services))
	for i := range e.order {
		e.order[i] = int32(i)
	}
	slices.SortFunc(e.order, e.compareAge)
}

// compareAge compares the services at two indexes by age, the oldest first, then by host and
// namespace.
func (e *egressInput) compareAge(i, j int32) int {
	a, b := e.services[i].service, e.services[j].service
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Namespace, b.Namespace))
}

// byAge iterates over the services by age, the oldest first, which is their precedence. e.order
// must be set.
func (e *egressInput) byAge() iter.Seq[serviceInput] {
	return func(yield func(serviceInput) bool) {
		for _, i := range e.order {
			if !yield(e.services[i]) {
				return
			}
		}
	}
}

// serviceInput is a service, with everything else that its listeners depend on.
type serviceInput struct {
	service *mesh.Service
	// rule is nil if it has no settings for TCP connections.
	rule *snapshot.DestinationRule
	// endpoints is set if each of them has a listener.
	endpoints *snapshot.EndpointSet
}

// servicePort is a service port that is a candidate for connections.
type servicePort struct {
	serviceInput
	port mesh.Port
	// protocol is the protocol of the port, or of the Sidecar's listener if it has one.
	protocol mesh.Protocol
}

// target is a host that a TCP or TLS route references, after aliases were followed, with the inputs
// of the route's TCP proxy.
type target struct {
	host mesh.Hostname
	// rule is nil if the host has none with settings for TCP connections.
	rule *snapshot.DestinationRule
	// service is nil if the host is not a service. A destination without a port refers to its only
	// port.
	service *mesh.Service
}

// inputFor returns the input of the outbound listeners of a View: the services of each egress
// listener, the VirtualServices with TCP or TLS routes or that apply by address, and the
// destinations of those routes. The order of services is not set (sortByAge).
func (g *Generator) inputFor(v *view.View) *outboundInput {
	in := &outboundInput{
		class:           classOf(v.Key),
		listenerContext: g.contextFor(v),
		sidecar:         v.Sidecar,
		unknown:         destination.Unknown(v),
		byName:          v.OutboundTrafficPolicy().ResolveByHost,
	}
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
			} else if vs.Config.Extension.AppliesByAddress() {
				x.rules = append(x.rules, vs)
			}
		}
		in.egress = append(in.egress, x)
	}
	return in
}

// serviceInputFor returns a service with its DestinationRule, if that has settings for TCP
// connections, and its endpoints, if each may have a listener: resolution Passthrough without
// addresses. For a service without forwarded ports, and for an alias, it returns only the service
// itself.
func serviceInputFor(v *view.View, svc *mesh.Service) serviceInput {
	in := serviceInput{service: svc}
	if !slices.ContainsFunc(svc.Ports, isForwarded) || svc.Resolution == mesh.Alias {
		return in
	}
	in.rule = shapingRule(v, svc.Host)
	if svc.Resolution == mesh.Passthrough && len(svc.Addresses) == 0 {
		in.endpoints = v.Endpoints(svc)
	}
	return in
}

// isForwarded reports whether connections to a port are, or may be, forwarded as TCP. That is the
// case for captured ports except HTTP.
func isForwarded(p mesh.Port) bool { return p.Protocol.Captured() && !p.Protocol.IsHTTP() }

// addTargets adds to in.targets the destinations of the TCP and TLS routes of vs, with their
// DestinationRules. It skips hosts in seen, and adds the others to seen.
func (in *outboundInput) addTargets(v *view.View, vs *snapshot.VirtualService, seen map[mesh.Hostname]bool) {
	add := func(list []*networking.RouteDestination) {
		for _, d := range list {
			host := destination.Host(v, vs.ResolveHost(d.GetDestination().GetHost()))
			if seen[host] {
				continue
			}
			seen[host] = true
			in.targets = append(in.targets, target{host, shapingRule(v, host), v.Service(host)})
		}
	}
	for _, r := range vs.Spec.GetTcp() {
		add(r.GetRoute())
	}
	for _, r := range vs.Spec.GetTls() {
		add(r.GetRoute())
	}
}

// shapingRule returns the DestinationRule of a host if it, or a subset, has settings that TCP
// listeners honour, else nil.
func shapingRule(v *view.View, host mesh.Hostname) *snapshot.DestinationRule {
	r := v.DestinationRule(host)
	if r == nil {
		return nil
	}
	// If the mesh has default settings for the pool, a rule without such settings overrides them.
	pools := v.Settings.Mesh.GetDefaultTrafficPolicy().GetConnectionPool() != nil
	shapes := hasTCPSettings(r.Spec.GetTrafficPolicy(), pools)
	for _, s := range r.Spec.GetSubsets() {
		shapes = shapes || hasTCPSettings(s.GetTrafficPolicy(), pools)
	}
	if !shapes {
		return nil
	}
	return r
}

// hasTCPSettings reports whether a traffic policy, which may be nil, or a port level setting of it
// has settings that TCP listeners honour. If pools is set, any connection pool is such a setting.
// These settings are a tunnel, a TCP idle timeout, a maximum connection duration, and hashing of
// the source IP.
func hasTCPSettings(p *networking.TrafficPolicy, pools bool) bool {
	shapes := func(pool *networking.ConnectionPoolSettings, lb *networking.LoadBalancerSettings) bool {
		tcp := pool.GetTcp()
		return pools && pool != nil || tcp.GetIdleTimeout() != nil || tcp.GetMaxConnectionDuration() != nil ||
			lb.GetConsistentHash().GetUseSourceIp()
	}
	return p.GetTunnel() != nil ||
		shapes(p.GetConnectionPool(), p.GetLoadBalancer()) || slices.ContainsFunc(p.GetPortLevelSettings(),
		func(s *networking.TrafficPolicy_PortTrafficPolicy) bool {
			return shapes(s.GetConnectionPool(), s.GetLoadBalancer())
		})
}

// equal reports whether two inputs of one class yield the same listeners. All inputs that it does
// not compare derive from the settings and the Sidecar, which are compared by pointer.
func (in *outboundInput) equal(o *outboundInput) bool {
	return in.listenerContext == o.listenerContext && in.sidecar == o.sidecar && in.unknown == o.unknown &&
		slices.Equal(in.targets, o.targets) &&
		slices.EqualFunc(in.egress, o.egress, func(a, b egressInput) bool {
			return slices.Equal(a.services, b.services) && slices.Equal(a.rules, b.rules)
		})
}
