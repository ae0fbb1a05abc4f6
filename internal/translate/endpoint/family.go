package endpoint

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/policy"
)

// family is the EDS clusters of one service, for each port one of the whole host and one of each subset, with what shapes their
// assignments besides the endpoints. It asks the same questions as the cluster room, which makes the clusters.
type family struct {
	members []member // sorted by name
	// near says that it matters to some of them where the caller is, local that they are reached within its cluster only.
	near, local bool
}

// familyKey is all that a family depends on.
type familyKey struct {
	service  *mesh.Service
	rule     *snapshot.DestinationRule
	settings *snapshot.Settings
	proxy    mesh.ProxyType
}

// member is one cluster.
type member struct {
	name string // of the cluster
	port mesh.Port
	// labels are those of the subset; nil: there is none.
	labels map[string]string
	// healthyOnly leaves out endpoints that are not ready. Envoy sends nothing to unhealthy endpoints but counts them when it
	// spreads load over priorities. Where it may fall back to all endpoints when too few are healthy (minHealthPercent),
	// unready ones must not be among them.
	healthyOnly bool
	locality    policy.Locality
	tls         *networking.ClientTLSSettings // as the rule says; nil: each endpoint knows
}

// mutual says that an endpoint is called with mutual TLS between proxies.
func (m member) mutual(e *mesh.Endpoint) bool {
	if m.tls != nil {
		return m.tls.GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL
	}
	return e.TLS
}

func newFamily(k familyKey) *family {
	f := &family{local: k.settings.ClusterLocal(k.service.Host)}
	if !ByEDS(k.service, k.proxy) {
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
		f.add(k, rule, port, "")
		for i, s := range rule.GetSubsets() {
			first := slices.IndexFunc(rule.Subsets, func(o *networking.Subset) bool { return o.GetName() == s.GetName() }) == i
			if first && s.GetName() != "" {
				f.add(k, rule, port, s.GetName())
			}
		}
	}
	slices.SortFunc(f.members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	return f
}

func (f *family) add(k familyKey, rule *networking.DestinationRule, port mesh.Port, subset string) {
	m := newMember(k.service, rule, k.settings, mesh.ClusterName{Direction: mesh.Outbound, Port: port.Number, Subset: subset, Host: k.service.Host}, port)
	f.members = append(f.members, m)
	f.near = f.near || m.locality.Shapes()
}

func newMember(svc *mesh.Service, rule *networking.DestinationRule, s *snapshot.Settings, cluster mesh.ClusterName, port mesh.Port) member {
	p := policy.Of(s.Mesh, rule, cluster.Subset, port.Number)
	m := member{
		name: cluster.String(), port: port,
		healthyOnly: p.GetOutlierDetection().GetMinHealthPercent() > 0 && !s.Features.SendUnhealthy,
		locality:    policy.LocalityOf(s.Mesh, p, svc),
		tls:         p.GetTls(),
	}
	if cluster.Subset != "" {
		m.labels = policy.Subset(rule, cluster.Subset).GetLabels()
	}
	return m
}

// find gives the place of a cluster in the family.
func (f *family) find(name string) (at int, found bool) {
	return slices.BinarySearchFunc(f.members, name, func(m member, name string) int { return strings.Compare(m.name, name) })
}

// ByEDS says whether the proxies are told the endpoints of a service. Callers of a Passthrough service chose the endpoint
// themselves; a gateway has no such caller, so it is told.
func ByEDS(svc *mesh.Service, proxy mesh.ProxyType) bool {
	return svc.Resolution == mesh.Static || svc.Resolution == mesh.Passthrough && proxy == mesh.RouterProxy
}
