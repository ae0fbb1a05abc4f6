package view

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"istio.io/api/label"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Key holds only what changes a View's output. It is comparable; proxies with equal Keys are sent equal configuration.
type Key struct {
	Type      mesh.ProxyType
	Namespace string
	// Domain is the proxy's DNS suffix, "default.svc.cluster.local": which short names its applications use.
	Domain string
	// Sidecar is the Sidecar object that applies, the zero Key if none does.
	Sidecar config.Key
	// Inbound is the proxy's own service ports, in the canonical text form that instances.go writes and reads.
	Inbound string
	// Labels is those of the mesh's source label selectors that match the proxy, in the snapshot's order, joined by ";".
	Labels   string
	Locality mesh.Locality
	Network  mesh.Network
	Cluster  mesh.ClusterID
	// NetworkView is the networks that the proxy wants to see, joined by commas; "": all.
	NetworkView string
	// Node is where the proxy runs, if there are services that it matters to.
	Node string
	// IPv4 and IPv6 say which families the proxy has addresses of.
	IPv4, IPv6 bool
	// Allocated says that the proxy's applications are told the addresses that services without any were given
	// (snapshot.Allocation).
	Allocated bool
	// Home is the cluster by whose addresses the proxy's applications know services, where those differ from the ones that count
	// first (Snapshot.Home).
	Home mesh.ClusterID
	// Interception is how traffic gets to the proxy: "REDIRECT", "TPROXY" or "NONE".
	Interception string
	// Bound says that the Sidecar has inbound listeners that are bound, and so may be where outbound ones would be.
	Bound bool
	// SocketMark is the SO_MARK that the proxy's upstream connections carry; 0: none.
	SocketMark int
	// FileServer is the static cluster by which the proxy's agent is asked for secrets that are files; "": the proxy has no agent.
	FileServer string
	// Client and Server are what the proxy has for connections to and from other proxies.
	Client, Server mesh.Credentials
	// Near is what the proxy has of the labels by which endpoints are near or far (Snapshot.FailoverLabels), in the canonical
	// text form of SelectorText.
	Near string
	// Rules are the DestinationRules with a workloadSelector that select the proxy.
	Rules snapshot.RuleNames
	// Patches are those of EnvoyFilters that hold for the proxy.
	Patches snapshot.PatchNames
	// Telemetry are the Telemetry objects that hold for the proxy.
	Telemetry snapshot.TelemetryKeys
	// Peers are the PeerAuthentications that hold for a sidecar.
	Peers snapshot.Peers
	// Easing is what a sidecar takes in the place of what Peers say, while its callers are being told; "" where nobody is.
	Easing snapshot.Easing
	// Policies are the AuthorizationPolicies and RequestAuthentications that hold for the proxy.
	Policies snapshot.PolicyNames
	// PoliciesInside says that the proxy has its policies for requests inside its listeners, rather than by ECDS.
	PoliciesInside bool
	// Plugins are the WasmPlugins and TrafficExtensions that hold for the proxy.
	Plugins snapshot.PluginNames
	// LogService says that the proxy's own ProxyConfig has an access log service, and the mesh has proxies log to it
	// (enableEnvoyAccessLogService).
	LogService bool
	// Keys says whether the proxy may be sent private keys of its namespace.
	Keys KeyRight
	// Own is what of the proxy's own ProxyConfig takes the place of the mesh's, in the form of Settings.With.
	Own string
	// OwnClusters is the part of Own that outbound clusters depend on, in the same form.
	OwnClusters string
	// Gateway is what a gateway serves.
	Gateway GatewayKey
	// Proxyless says that there is no Envoy: gRPC itself asks (node metadata GENERATOR "grpc"). Addresses are then its own, joined
	// by commas, and Ports those of its containers, sorted: it names what its servers are configured by after them, whether they
	// are of a service or not.
	Proxyless        bool
	Addresses, Ports string
	// Self identifies the endpoints of the proxy's own workload, if the proxy discovers them.
	Self SelfDiscovery
	// Lacks is the set of features that the proxies' Envoy does not have; zero for a current one.
	Lacks EnvoyFeatures
	// CalledWithTLS says that proxies call such an application with mutual TLS: its workload has the label that says so.
	CalledWithTLS bool
}

// KeyFor gives the Key of a proxy. It costs little: no services are listed but the selecting ones of one namespace.
func KeyFor(s *snapshot.Snapshot, p *mesh.Proxy) Key {
	k := Key{
		Keys: keyRight(s, p), Type: p.Type, Namespace: p.Namespace, Domain: p.DNSDomain,
		Locality: p.Locality, Network: p.Network, Cluster: p.ClusterID,
		Interception: p.Metadata.InterceptionMode, SocketMark: int(p.Metadata.SocketMark),
		Client: p.Metadata.ClientCredentials(), Server: p.Metadata.ServerCredentials(), FileServer: p.Metadata.FileServer(), Allocated: s.KnowsAllocated(p), Home: s.Home(p.ClusterID),
		NetworkView: networkView(p), Node: node(s, p),
	}
	if k.Interception == "" {
		k.Interception = "REDIRECT"
	}
	for _, a := range p.Addresses {
		k.IPv4 = k.IPv4 || a.Is4()
		k.IPv6 = k.IPv6 || a.Is6()
	}
	labels := Labels(s, p)
	k.Labels = matching(s.SourceSelectors(), labels)
	k.Rules, k.Near = s.RuleNames(p.Namespace, labels), near(s, p, labels)
	patched := snapshot.Patched{
		Type: p.Type, Namespace: p.Namespace, Labels: labels, Version: p.Metadata.IstioVersion, Metadata: p.Metadata.Strings,
	}
	k.Patches, k.Telemetry = s.PatchNames(patched), s.TelemetryKeys(patched)
	k.Policies, k.Plugins = s.PolicyNames(patched), s.PluginNames(patched)
	k.Lacks = lacks(p)
	k.PoliciesInside = s.SeekPolicies(k.Patches.Listeners) || k.Lacks.Has(FilterChain)
	k.Lacks &^= FilterChain
	own, ownClusters, logService := ownConfig(s.Settings, p)
	k.Own, k.OwnClusters, k.LogService = own, ownClusters, logService && s.Settings.Mesh.GetEnableEnvoyAccessLogService()
	if p.Type == mesh.SidecarProxy {
		if sc := sidecarFor(s, p.Namespace, labels); sc != nil {
			k.Sidecar, k.Bound = sc.Key, binds(sc, k.Interception)
		}
		k.Inbound = encodeInstances(instances(s, p, labels))
		if k.Server != (mesh.Credentials{}) {
			k.Peers = s.Peers(p.Namespace, labels)
		}
	}
	k.Self = selfDiscovery(s, p, labels)
	if p.Metadata.Generator == generatorGRPC {
		k.proxyless(p, labels)
	}
	if p.Type == mesh.RouterProxy {
		k.Gateway = gatewayKeyFor(s, p, labels)
	}
	return k
}

// PeerModes gives what a proxy of the Key takes of its peers.
func (k Key) PeerModes(s *snapshot.Snapshot) snapshot.PeerModes {
	return s.PeerModes(k.Peers).With(k.Easing)
}

// generatorGRPC is what Istio's agent has gRPC applications say of themselves.
const generatorGRPC = "grpc"

// mostPorts bounds how many ports a pod may say that it has: each costs a listener for each address.
const mostPorts = 64

// proxyless makes the Key that of a gRPC application, of which patches of Envoy's configuration, plugins and telemetry are no matter.
func (k *Key) proxyless(p *mesh.Proxy, labels map[string]string) {
	k.Proxyless, k.CalledWithTLS = true, labels[label.SecurityTlsMode.Name] == "istio"
	k.Patches, k.Telemetry = snapshot.PatchNames{}, snapshot.TelemetryKeys{}
	k.Own, k.OwnClusters, k.LogService, k.Lacks = "", "", false, 0
	k.Plugins, k.Self = snapshot.PluginNames{}, SelfDiscovery{}
	var list []string
	for _, a := range p.Addresses {
		list = append(list, a.String())
	}
	k.Addresses = strings.Join(list, ",")
	ports := slices.Compact(slices.Sorted(slices.Values(p.Metadata.PodPorts)))
	list = nil
	for _, port := range ports[:min(len(ports), mostPorts)] {
		list = append(list, strconv.FormatUint(uint64(port), 10))
	}
	k.Ports = strings.Join(list, ",")
}

// binds says whether a Sidecar has inbound listeners that connections are not handed to by capture.
func binds(c *config.Config, interception string) bool {
	ingress := config.Spec[*networking.Sidecar](c).GetIngress()
	return len(ingress) > 0 && (interception == "NONE" || slices.ContainsFunc(ingress, func(l *networking.IstioIngressListener) bool {
		return l.GetCaptureMode() == networking.CaptureMode_NONE
	}))
}

// KeyMoves gives a function that says whether the change from one snapshot to another may have altered the Key of a proxy.
// It costs less than KeyFor, and says false only where it surely has not.
func KeyMoves(old, now *snapshot.Snapshot, d snapshot.Delta) func(*mesh.Proxy) bool {
	namespaces := map[string]bool{} // of services whose selectors may concern the proxies there
	for k := range d.Services {
		namespaces[k.Namespace] = true
	}
	everybody := d.All || old == nil || !slices.EqualFunc(old.SourceSelectors(), now.SourceSelectors(), maps.Equal) ||
		!slices.Equal(old.FailoverLabels(), now.FailoverLabels()) || !old.SameHomes(now) || nodesMatter(old) != nodesMatter(now)
	gateways := false
	for k := range d.Configs {
		gateways = gateways || k.Kind == api.Gateway
		if k.Kind == api.DestinationRule && old != nil && !old.SameRuleSelectors(now, k.Namespace) {
			namespaces[k.Namespace] = true
		}
		switch k.Kind {
		case api.Sidecar, api.EnvoyFilter, api.Telemetry, api.PeerAuthentication, api.AuthorizationPolicy, api.RequestAuthentication,
			api.WasmPlugin, api.TrafficExtension:
			namespaces[k.Namespace] = true
			everybody = everybody || k.Namespace == now.Settings.RootNamespace
		}
	}
	return func(p *mesh.Proxy) bool {
		if everybody || namespaces[p.Namespace] || gateways && p.Type == mesh.RouterProxy {
			return true
		}
		if _, changed := d.Rights[p.Account]; changed {
			return true
		}
		for _, a := range p.Addresses {
			_, moved := d.Workloads[a]
			if _, serves := d.Served[a]; moved || serves {
				return true
			}
			if len(d.Services) > 0 && servesAny(now.At(a), d.Services) {
				return true
			}
		}
		return false
	}
}

func servesAny(at *snapshot.Address, services map[mesh.ServiceKey]struct{}) bool {
	if at == nil {
		return false
	}
	return slices.ContainsFunc(at.Targets, func(t snapshot.Target) bool {
		_, ok := services[t.Service]
		return ok
	})
}

// Labels gives the labels of a proxy's workload: what the platform says of it, or else what the proxy says itself.
func Labels(s *snapshot.Snapshot, p *mesh.Proxy) map[string]string {
	if w := workload(s, p); w != nil {
		return w.Labels
	}
	return p.Labels
}

// workload returns the pod or WorkloadEntry of the proxy's namespace that has its address, nil if there is none. If several share
// the address (host network), it is the one with the proxy's name. Workloads of other namespaces make no difference.
func workload(s *snapshot.Snapshot, p *mesh.Proxy) *mesh.Workload {
	for _, a := range p.Addresses {
		at := s.At(a)
		if at == nil {
			continue
		}
		var own []*mesh.Workload
		for _, w := range at.Workloads {
			if w.Namespace == p.Namespace {
				own = append(own, w)
			}
		}
		for _, w := range own {
			if w.Name == p.Name || len(own) == 1 {
				return w
			}
		}
	}
	return nil
}

// near gives the proxy's values of the labels by which endpoints are near or far. Its node is such a label that no workload
// has itself.
func near(s *snapshot.Snapshot, p *mesh.Proxy, labels map[string]string) string {
	names := s.FailoverLabels()
	if len(names) == 0 {
		return ""
	}
	own := map[string]string{}
	for _, name := range names {
		value := labels[name]
		if name == corev1.LabelHostname {
			value = p.Metadata.NodeName
		}
		if value != "" {
			own[name] = value
		}
	}
	return snapshot.SelectorText(own)
}

func matching(selectors []map[string]string, labels map[string]string) string {
	var list []string
	for _, sel := range selectors {
		if snapshot.Selects(sel, labels) {
			list = append(list, snapshot.SelectorText(sel))
		}
	}
	return strings.Join(list, ";")
}

// SourceMatches says whether a match's sourceLabels and sourceNamespace (HTTPMatchRequest, L4MatchAttributes) hold for
// the proxies of this View. Empty ones always hold.
func (v *View) SourceMatches(labels map[string]string, namespace string) bool {
	if namespace != "" && namespace != v.Key.Namespace {
		return false
	}
	if len(labels) == 0 {
		return true
	}
	want := snapshot.SelectorText(labels)
	for have := range strings.SplitSeq(v.Key.Labels, ";") {
		if have == want {
			return true
		}
	}
	return false
}
