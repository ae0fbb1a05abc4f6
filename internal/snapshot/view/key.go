package view

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"istio.io/api/label"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Key holds every value of a proxy that changes its generated configuration, and nothing else. It
// is comparable. Proxies with equal Keys are sent equal configuration.
type Key struct {
	AttachedObjects
	Type      mesh.ProxyType
	Namespace string
	// Domain is the proxy's DNS suffix, "default.svc.cluster.local". It determines which short
	// names its applications use.
	Domain string
	// SourceSelectors lists the source label selectors of the mesh that match the proxy, in the
	// snapshot's order, joined by ";".
	SourceSelectors string
	Location
	AddressFamilies
	VirtualAddresses
	// Interception is how traffic is redirected to the proxy: "REDIRECT", "TPROXY" or "NONE".
	Interception string
	Upstream
	Server
	// PoliciesInside is set if HTTP policies are embedded in the proxy's listeners instead of being
	// served by ECDS.
	PoliciesInside bool
	// LogService is set if the proxy's own ProxyConfig has an access log service and the mesh
	// enables logging to it (enableEnvoyAccessLogService).
	LogService bool
	// SecretAccess is whether the proxy may be sent private keys of its namespace.
	SecretAccess SecretAccess
	// ServiceAccount is the authenticated service account of a gateway, set only if a Gateway that
	// selects it permits its private keys to one account. It is "" without an authenticated account.
	ServiceAccount string
	// ProxyConfigOverrides holds the fields of the proxy's own ProxyConfig, and entries of its
	// metadata, that override the mesh's, in the form of Settings.WithProxyConfig.
	ProxyConfigOverrides string
	// Unprivileged is set for sidecars that cannot listen on ports below 1024 (node metadata
	// UNPRIVILEGED_POD). For gateways it is in Gateway.
	Unprivileged bool
	// Gateway is set for proxies of type router only.
	Gateway GatewayKey
	// Proxyless is set for gRPC applications without an Envoy only.
	Proxyless ProxylessKey
	// SelfDiscovery identifies the endpoints of the proxy's own workload, if the proxy discovers
	// them.
	SelfDiscovery SelfDiscovery
	// MissingFeatures are the features that the proxies' Envoy does not have; zero for a current
	// Envoy.
	MissingFeatures EnvoyFeatures
	// OnDemand is set for sidecars that fetch the clusters of services when they first call them
	// (ADR 52).
	OnDemand bool
}

// KeyFor returns the Key of a proxy. Fields that apply only to sidecars, gateways or proxyless
// clients are zero for all other proxies. An interception mode that is not set is REDIRECT. KeyFor
// is cheap: of the services, it reads only those with selectors in the proxy's namespace and those
// at its addresses.
func KeyFor(s *snapshot.Snapshot, p *mesh.Proxy) Key {
	k := Key{
		Type:         p.Type,
		Namespace:    p.Namespace,
		Domain:       p.DNSDomain,
		SecretAccess: secretAccess(s, p),
		Interception: p.Metadata.InterceptionMode,
		Location: Location{
			Locality: Locality(s, p), Network: p.Network, Cluster: p.ClusterID,
			NetworkView: networkView(p), Node: callerNode(s, p),
		},
		VirtualAddresses: VirtualAddresses{
			KnowsAllocatedAddresses: s.KnowsAllocatedAddresses(p), VIPCluster: s.VIPCluster(p.ClusterID),
		},
		Upstream: Upstream{
			SocketMark:        int(p.Metadata.SocketMark),
			ClientCredentials: p.Metadata.ClientCredentials(),
			FileServer:        p.Metadata.FileServer(),
			CredentialServer:  p.Metadata.HasCredentialServer(),
		},
		Server: Server{ServerCredentials: p.Metadata.ServerCredentials()},
	}
	if k.Interception == "" {
		k.Interception = "REDIRECT"
	}
	for _, a := range p.Addresses {
		k.IPv4 = k.IPv4 || a.Is4()
		k.IPv6 = k.IPv6 || a.Is6()
	}
	labels := WorkloadLabels(s, p)
	k.SourceSelectors = matchingSelectors(s.SourceSelectors(), labels)
	k.FailoverLabels = failoverLabels(s, p, labels)
	k.AttachedObjects = attachedObjects(s, p, snapshot.ProxyAttributes{
		Type: p.Type, Namespace: p.Namespace, Labels: labels, Version: p.Metadata.IstioVersion,
		Metadata: p.Metadata.Strings,
	})
	k.setMissingFeatures(s, p)
	own, ownClusters, logService := proxyConfigOverrides(s.Settings, p)
	k.ProxyConfigOverrides, k.ClusterOverrides, k.LogService = own, ownClusters, logService &&
		s.Settings.Mesh.GetEnableEnvoyAccessLogService()
	if p.Type == mesh.SidecarProxy {
		k.OnDemand, k.Unprivileged = bool(p.Metadata.OnDemand), bool(p.Metadata.UnprivilegedPod)
		k.HasBoundIngress = hasBoundIngress(s.Config(k.Sidecar), k.Interception)
		k.Inbound = encodeInstances(workloadInstances(s, p, labels))
	}
	k.SelfDiscovery = selfDiscovery(s, p, labels)
	if IsProxyless(p) {
		k.setProxyless(p, labels)
	}
	if p.Type == mesh.RouterProxy {
		k.Gateway = gatewayKeyFor(s, p, labels)
		if s.HasGatewayAccounts(k.Gateways) {
			k.ServiceAccount = p.Account.Name
		}
	}
	return k
}

// PeerModes returns the mTLS modes that a proxy of the Key accepts, including a temporary override.
func (k Key) PeerModes(s *snapshot.Snapshot) snapshot.PeerModes {
	return s.PeerModes(k.PeerAuthentications).With(k.TransitionModes)
}

// generatorGRPC is the node metadata GENERATOR of gRPC applications with Istio's agent.
const generatorGRPC = "grpc"

// IsProxyless reports whether a proxy is a gRPC application without an Envoy.
func IsProxyless(p *mesh.Proxy) bool { return p.Metadata.Generator == generatorGRPC }

// maxPodPorts limits the container ports that a pod can declare: each costs one listener per
// address.
const maxPodPorts = 64

// setProxyless sets k.Proxyless for a gRPC application: CalledWithTLS from its labels, its
// addresses, and the lowest maxPodPorts of its container ports, sorted. It clears
// ProxyConfigOverrides, ClusterOverrides, LogService, MissingFeatures, SelfDiscovery, OnDemand and
// CredentialServer, which only concern Envoys.
func (k *Key) setProxyless(p *mesh.Proxy, labels map[string]string) {
	k.Proxyless = ProxylessKey{Enabled: true, CalledWithTLS: labels[label.SecurityTlsMode.Name] == "istio"}
	k.ProxyConfigOverrides, k.ClusterOverrides, k.LogService, k.MissingFeatures = "", "", false, 0
	k.SelfDiscovery, k.OnDemand, k.CredentialServer = SelfDiscovery{}, false, false
	var list []string
	for _, a := range p.Addresses {
		list = append(list, a.String())
	}
	k.Proxyless.Addresses = strings.Join(list, ",")
	ports := slices.Compact(slices.Sorted(slices.Values(p.Metadata.PodPorts)))
	list = nil
	for _, port := range ports[:min(len(ports), maxPodPorts)] {
		list = append(list, strconv.FormatUint(uint64(port), 10))
	}
	k.Proxyless.Ports = strings.Join(list, ",")
}

// hasBoundIngress reports whether a Sidecar has inbound listeners that bind their own port instead
// of receiving captured connections. With interception NONE all of them do. c may be nil.
func hasBoundIngress(c *config.Config, interception string) bool {
	if c == nil {
		return false
	}
	ingress := config.Spec[*networking.Sidecar](c).GetIngress()
	return len(ingress) > 0 &&
		(interception == "NONE" || slices.ContainsFunc(ingress, func(l *networking.IstioIngressListener) bool {
			return l.GetCaptureMode() == networking.CaptureMode_NONE
		}))
}

// KeyChangeFilter returns a function that reports whether the change from old to now, described by
// d, may have changed the Key of a proxy. It is cheaper than KeyFor. It may return true for an
// unchanged Key, but never false for a changed one. With a nil old, or if d.All is set, it returns
// true for every proxy.
func KeyChangeFilter(old, now *snapshot.Snapshot, d snapshot.Delta) func(*mesh.Proxy) bool {
	// namespaces of services whose selectors may match their proxies
	namespaces := map[string]bool{}
	for k := range d.Services {
		namespaces[k.Namespace] = true
	}
	everyProxy := d.All || old == nil || !slices.EqualFunc(old.SourceSelectors(), now.SourceSelectors(), maps.Equal) ||
		!slices.Equal(
			old.FailoverLabels(),
			now.FailoverLabels(),
		) || !old.HasSameVIPClusters(now) || hasNodeAwareServices(old) != hasNodeAwareServices(now)
	allRouters := false
	for k := range d.Configs {
		row := attachedRow(k.Kind)
		if row == nil {
			continue
		}
		switch row.reach {
		case namespaceReach:
			namespaces[k.Namespace] = true
			everyProxy = everyProxy || k.Namespace == now.Settings.RootNamespace
		case selectorReach:
			if old != nil && !old.SameRuleSelectors(now, k.Namespace) {
				namespaces[k.Namespace] = true
			}
		case routerReach:
			allRouters = true
		}
	}
	return func(p *mesh.Proxy) bool {
		if everyProxy || namespaces[p.Namespace] || allRouters && p.Type == mesh.RouterProxy {
			return true
		}
		if _, changed := d.SecretAccess[p.Account]; changed {
			return true
		}
		for _, a := range p.Addresses {
			_, moved := d.Workloads[a]
			if _, serves := d.Served[a]; moved || serves {
				return true
			}
			if len(d.Services) > 0 && servesAnyOf(now.Address(a), d.Services) {
				return true
			}
		}
		return false
	}
}

// servesAnyOf reports whether at least one of the services has an endpoint at the address at, which
// may be nil.
func servesAnyOf(at *snapshot.Address, services map[mesh.ServiceKey]struct{}) bool {
	if at == nil {
		return false
	}
	return slices.ContainsFunc(at.Targets, func(t snapshot.Target) bool {
		_, ok := services[t.Service]
		return ok
	})
}

// WorkloadLabels returns the labels of a proxy's workload as its platform reports them, or else the
// labels that the proxy reports itself.
func WorkloadLabels(s *snapshot.Snapshot, p *mesh.Proxy) map[string]string {
	if w := findWorkload(s, p); w != nil {
		return w.Labels
	}
	return p.Labels
}

// findWorkload returns the pod or WorkloadEntry of the proxy's namespace that has one of its
// addresses, tried in their order, or nil. If several share an address (host network), only one
// with the proxy's name is returned, and otherwise the next address is tried. Workloads of other
// namespaces are ignored.
func findWorkload(s *snapshot.Snapshot, p *mesh.Proxy) *mesh.Workload {
	for _, a := range p.Addresses {
		at := s.Address(a)
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

// failoverLabels returns the proxy's non-empty values of the labels that failover priorities
// compare, as SelectorText. The node name is used for kubernetes.io/hostname, which no workload has
// itself.
func failoverLabels(s *snapshot.Snapshot, p *mesh.Proxy, labels map[string]string) string {
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

// matchingSelectors returns the selectors that match labels, in their order, in the form of
// SelectorText and joined by ";".
func matchingSelectors(selectors []map[string]string, labels map[string]string) string {
	var list []string
	for _, sel := range selectors {
		if snapshot.SelectorMatches(sel, labels) {
			list = append(list, snapshot.SelectorText(sel))
		}
	}
	return strings.Join(list, ";")
}

// SourceMatches reports whether the sourceLabels and sourceNamespace of a match (HTTPMatchRequest,
// L4MatchAttributes) match the proxies of this View. Empty values match all proxies. It returns
// false for labels that are not one of Snapshot.SourceSelectors.
func (v *View) SourceMatches(labels map[string]string, namespace string) bool {
	if namespace != "" && namespace != v.Key.Namespace {
		return false
	}
	if len(labels) == 0 {
		return true
	}
	want := snapshot.SelectorText(labels)
	for have := range strings.SplitSeq(v.Key.SourceSelectors, ";") {
		if have == want {
			return true
		}
	}
	return false
}

// IsDirect reports whether the traffic of a Key's proxies is not captured: applications connect to
// the proxy's listeners themselves (interception NONE).
func IsDirect(k Key) bool { return k.Interception == "NONE" }
