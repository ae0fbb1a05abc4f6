package offline

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// agentVersion is the release of Istio's protocol that the proxies have. With one, a proxy has the
// certificates of an agent.
const agentVersion = "1.28.0"

// Proxies returns the proxies that a snapshot implies, by their names NAME.NAMESPACE:
//
//   - one per workload with an address: a gateway if a Gateway selects the workload, else a sidecar
//   - a sidecar "client" without labels in each namespace that has services or objects and no
//     workload
//   - a gateway for each selector of Gateways that selects no workload
func Proxies(s *snapshot.Snapshot) map[string]*mesh.Proxy {
	list := map[string]*mesh.Proxy{}
	populated := map[string]bool{}
	var gateways []*mesh.Proxy
	for ip, w := range s.Workloads() {
		populated[w.Namespace] = true
		p := NewProxy(mesh.SidecarProxy, w.Name, w.Namespace, ip)
		p.Labels, p.Locality, p.Network, p.Metadata.NodeName = w.Labels, w.Locality, w.Network, w.Node
		p.ClusterID = cmp.Or(w.Cluster, p.ClusterID)
		if IsGateway(s, w) {
			p.Type = mesh.RouterProxy
			gateways = append(gateways, p)
		}
		// The main address of a workload with several is the first one.
		if name := p.Name + "." + p.Namespace; list[name] == nil || w.MainAddress() == ip.String() {
			list[name] = p
		}
	}
	for _, namespace := range namespacesOf(s) {
		if !populated[namespace] {
			add(list, NewProxy(mesh.SidecarProxy, "client", namespace, placeholder()))
		}
	}
	for _, c := range s.Configs(api.Gateway) {
		selector := config.Spec[*networking.Gateway](c).GetSelector()
		if len(selector) == 0 || slices.ContainsFunc(gateways, func(p *mesh.Proxy) bool {
			return snapshot.SelectorMatches(selector, p.Labels)
		}) {
			continue
		}
		p := NewProxy(mesh.RouterProxy, gatewayName(selector), c.Namespace, placeholder())
		p.Labels = selector
		gateways = append(gateways, p)
		add(list, p)
	}
	return list
}

// placeholder returns the address of proxies that no workload implies (RFC 5737, TEST-NET-1).
func placeholder() netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, 1}) }

// add adds p to list by its NAME.NAMESPACE, unless list has a proxy of that name.
func add(list map[string]*mesh.Proxy, p *mesh.Proxy) {
	if name := p.Name + "." + p.Namespace; list[name] == nil {
		list[name] = p
	}
}

// NewProxy returns a proxy of cluster Kubernetes with its node ID, the DNS domain of its namespace
// and agentVersion.
func NewProxy(kind mesh.ProxyType, name, namespace string, address netip.Addr) *mesh.Proxy {
	domain := namespace + ".svc.cluster.local"
	return &mesh.Proxy{
		ID:   string(kind) + "~" + address.String() + "~" + name + "." + namespace + "~" + domain,
		Type: kind, Name: name, Namespace: namespace, Addresses: []netip.Addr{address}, DNSDomain: domain,
		ClusterID: "Kubernetes", Metadata: mesh.NodeMetadata{IstioVersion: agentVersion},
	}
}

// IsGateway reports whether the selector of a Gateway matches the labels of a workload.
func IsGateway(s *snapshot.Snapshot, w *mesh.Workload) bool {
	return slices.ContainsFunc(s.Configs(api.Gateway), func(c *config.Config) bool {
		return snapshot.SelectorMatches(config.Spec[*networking.Gateway](c).GetSelector(), w.Labels)
	})
}

// gatewayName returns a name for the proxies that a selector describes: the sorted label values,
// joined by hyphens.
func gatewayName(selector map[string]string) string {
	var values []string
	for _, v := range selector {
		values = append(values, v)
	}
	slices.Sort(values)
	return strings.Join(values, "-")
}

// namespacesOf returns the namespaces of all services and objects, sorted and without duplicates,
// except the root namespace.
func namespacesOf(s *snapshot.Snapshot) []string {
	var list []string
	for _, svc := range s.Services() {
		list = append(list, svc.Namespace)
	}
	for _, info := range api.Kinds() {
		for _, c := range s.Configs(info.Kind) {
			list = append(list, c.Namespace)
		}
	}
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(n string) bool {
		return n == "" || n == s.Settings.RootNamespace
	})
}

// FindProxy returns the proxy in a map of Proxies whose NAME.NAMESPACE, or whose NAME, is name. It
// returns an error if there is none, or if several have the NAME.
func FindProxy(list map[string]*mesh.Proxy, name string) (*mesh.Proxy, error) {
	if p := list[name]; p != nil {
		return p, nil
	}
	names := slices.Sorted(maps.Keys(list))
	found := slices.DeleteFunc(slices.Clone(names), func(full string) bool { return list[full].Name != name })
	switch len(found) {
	case 1:
		return list[found[0]], nil
	case 0:
		return nil, fmt.Errorf("there is no proxy %q, only %s", name, strings.Join(names, ", "))
	default:
		return nil, fmt.Errorf("several proxies are called %q: %s", name, strings.Join(found, ", "))
	}
}
