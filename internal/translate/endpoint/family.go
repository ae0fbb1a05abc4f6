package endpoint

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/policy"
)

// family lists the EDS clusters of one service, with what affects their assignments besides the
// endpoints. Each port has a cluster of the whole host and one of each subset. Package cluster
// generates clusters by the same conditions.
type family struct {
	members []member // sorted by name
	// localityAware is set if any assignment depends on the caller's locality, clusterLocal if the
	// service is reachable only within the caller's cluster.
	localityAware, clusterLocal bool
}

// familyKey is everything that a family depends on.
type familyKey struct {
	service  *mesh.Service
	rule     *snapshot.DestinationRule
	settings *snapshot.Settings
	proxy    mesh.ProxyType
}

// member is one cluster of a family.
type member struct {
	name string // of the cluster
	port mesh.Port
	// labels are the labels of the subset; nil if the cluster has no subset.
	labels map[string]string
	// healthyOnly omits endpoints that are not ready. Envoy sends nothing to unhealthy endpoints,
	// but includes them when it spreads load over priorities. Below minHealthPercent it falls back
	// to all endpoints, among which there must be no unready ones.
	healthyOnly bool
	locality    policy.Locality
	tls         *networking.ClientTLSSettings // from the rule; if nil, each endpoint decides
}

// usesMTLS reports whether the cluster's callers use mutual TLS between proxies with endpoint e.
// The TLS settings of the DestinationRule override the endpoint's own declaration.
func (m member) usesMTLS(e *mesh.Endpoint) bool {
	if m.tls != nil {
		return m.tls.GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL
	}
	return e.TLS
}

// newFamily returns the EDS clusters of a service: for each captured port one of the whole host and
// one of each subset of the rule, and for gateways one of each UDP port. It has no members for a
// service without EDS. Members are sorted by name; subsets without a name, or with a repeated one,
// are left out.
func newFamily(k familyKey) *family {
	f := &family{clusterLocal: isClusterLocal(k.service, k.settings)}
	if !UsesEDS(k.service, k.proxy, k.settings.Features) {
		return f
	}
	var rule *networking.DestinationRule
	if k.rule != nil {
		rule = k.rule.Spec
	}
	seen := map[uint32]bool{}
	for _, p := range k.service.Ports {
		port, _ := k.service.Port(p.Number)
		if seen[port.Number] || !port.Protocol.Captured() {
			continue
		}
		seen[port.Number] = true
		f.addMember(k, rule, port, mesh.Outbound, "")
		for i, s := range rule.GetSubsets() {
			first := slices.IndexFunc(
				rule.Subsets,
				func(o *networking.Subset) bool { return o.GetName() == s.GetName() },
			) == i
			if first && s.GetName() != "" {
				f.addMember(k, rule, port, mesh.Outbound, s.GetName())
			}
		}
	}
	if k.proxy == mesh.RouterProxy {
		f.addUDP(k, rule)
	}
	slices.SortFunc(f.members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	return f
}

// addUDP adds a cluster of the whole host for each UDP port, to which gateways can forward
// datagrams. Of several UDP ports with one number, it adds the first only.
func (f *family) addUDP(k familyKey, rule *networking.DestinationRule) {
	seen := map[uint32]bool{}
	for _, port := range k.service.Ports {
		if port.Protocol == mesh.UDP && !seen[port.Number] {
			seen[port.Number] = true
			f.addMember(k, rule, port, mesh.OutboundUDP, "")
		}
	}
}

// addMember adds the cluster of a port and subset ("" for the whole host) to f.members, and sets
// f.localityAware if its assignment depends on the caller's locality.
func (f *family) addMember(
	k familyKey,
	rule *networking.DestinationRule,
	port mesh.Port,
	direction mesh.Direction,
	subset string,
) {
	m := newMember(
		k.service,
		rule,
		k.settings,
		mesh.ClusterName{Direction: direction, Port: port.Number, Subset: subset, Host: k.service.Host},
		port,
	)
	f.members = append(f.members, m)
	f.localityAware = f.localityAware || m.locality.Shapes()
}

// newMember returns the member for a cluster of a port of svc. Its locality, TLS and health
// settings come from the policy that rule, which may be nil, has for the port and the cluster's
// subset. Its labels are the ones of the subset, nil without one. healthyOnly is set if
// minHealthPercent is positive, unless Settings.AlwaysSendsUnhealthy.
func newMember(
	svc *mesh.Service,
	rule *networking.DestinationRule,
	s *snapshot.Settings,
	cluster mesh.ClusterName,
	port mesh.Port,
) member {
	p := policy.Of(s.Mesh, rule, cluster.Subset, port.Number)
	m := member{
		name: cluster.String(), port: port,
		healthyOnly: p.GetOutlierDetection().GetMinHealthPercent() > 0 && !s.AlwaysSendsUnhealthy(svc),
		locality:    policy.LocalityOf(s.Mesh, p, svc),
		tls:         p.GetTls(),
	}
	if cluster.Subset != "" {
		m.labels = config.Subset(rule, cluster.Subset).GetLabels()
	}
	return m
}

// indexOf returns the index in f.members of the cluster with a name. found is false if there is
// none.
func (f *family) indexOf(name string) (at int, found bool) {
	return slices.BinarySearchFunc(
		f.members,
		name,
		func(m member, name string) int { return strings.Compare(m.name, name) },
	)
}

// UsesEDS reports whether proxies of a type receive the endpoints of a service by EDS. They do for
// Static services. Callers of a Passthrough service chose the endpoint themselves, so only
// gateways, which have no such callers, receive its endpoints. With Features.HeadlessEDS, sidecars
// also receive those of headless Services of Kubernetes.
func UsesEDS(svc *mesh.Service, proxy mesh.ProxyType, features snapshot.Features) bool {
	switch svc.Resolution {
	case mesh.Static:
		return true
	case mesh.Passthrough:
		return proxy == mesh.RouterProxy || features.HeadlessEDS && svc.Provider == mesh.Kubernetes
	default:
		return false
	}
}
