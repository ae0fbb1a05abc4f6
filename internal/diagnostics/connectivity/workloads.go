package connectivity

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/diagnostics/diff/offline"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Role is what a workload is in the mesh.
type Role string

// The roles.
const (
	// Sidecar is a workload that accepts mutual TLS from proxies.
	Sidecar Role = "sidecar"
	// Gateway is a workload that a Gateway selects.
	Gateway Role = "gateway"
	// NoProxy is a workload without a proxy, which calls and is called in plain text.
	NoProxy Role = "none"
)

// Workload is a group of workloads of one owner to which the same objects apply. It is immutable.
type Workload struct {
	Namespace string
	// Name is that of the Deployment or other owner, or of the workload itself.
	Name string
	// Account is the SPIFFE ID of its certificate; "" if unknown.
	Account   string
	Role      Role
	Instances int
	// Modes are the modes of mutual TLS for inbound connections. They are meaningful for sidecars
	// only.
	Modes snapshot.PeerModes
	// Served are the service ports that it serves, sorted.
	Served []Served

	labels map[string]string
	proxy  *mesh.Proxy // of the first instance
	key    view.Key
	class  *class // nil without a proxy
}

// Served is a service port that a workload serves at a port of its own.
type Served struct {
	Service mesh.ServiceKey
	Port    uint32
	Target  uint32
}

// class is what workloads with the same outbound configuration have in common.
type class struct {
	namespace string
	role      Role
	sidecar   config.Key
	view      *view.View
}

// classKey is the part of a Key that determines a class.
type classKey struct {
	namespace string
	role      Role
	sidecar   config.Key
	rules     snapshot.RuleNames
	gateways  snapshot.GatewayNames
}

// Mesh is the workloads of a snapshot. It is immutable.
type Mesh struct {
	Snapshot *snapshot.Snapshot
	// Workloads are sorted by namespace, name and account.
	Workloads []*Workload

	servers map[mesh.ServiceKey][]*Workload
	classes []*class
}

// groupKey identifies a group of workloads.
type groupKey struct {
	namespace, name, account string
	role                     Role
	objects                  view.AttachedObjects
}

// New groups the workloads of a snapshot by namespace, name (of their owner), account, role and
// attached objects, sorted. Workloads without an IP address are left out. The member with the
// lowest address represents its group. All proxies have certificates of the mesh.
func New(s *snapshot.Snapshot) *Mesh { return newMesh(s, "") }

// NewWithoutCertificates returns the same as New for proxies that have no certificates, because the
// mesh has no authority. They neither offer nor accept mutual TLS.
func NewWithoutCertificates(s *snapshot.Snapshot) *Mesh { return newMesh(s, mesh.NoIdentity) }

// newMesh returns the Mesh of a snapshot, as New describes it. identity is the
// NodeMetadata.Identity of all proxies. It reads each workload with several addresses once, at its
// main address. Workloads of equal namespace, name, account, role and attached objects become one
// Workload, with the proxy and labels of the lowest address.
func newMesh(s *snapshot.Snapshot, identity string) *Mesh {
	m := &Mesh{Snapshot: s, servers: map[mesh.ServiceKey][]*Workload{}}
	groups, classes := map[groupKey]*Workload{}, map[classKey]*class{}
	for ip, w := range s.Workloads() {
		if first, err := netip.ParseAddr(w.MainAddress()); err == nil && first.Unmap() != ip {
			continue // once per workload
		}
		one := newWorkload(s, ip, w, identity)
		k := groupKey{one.Namespace, one.Name, one.Account, one.Role, one.key.AttachedObjects}
		group := groups[k]
		if group == nil {
			group = one
			groups[k] = group
			group.class = m.classOf(group, classes)
			m.Workloads = append(m.Workloads, group)
		}
		group.Instances++
		if group.proxy.Addresses[0].Compare(ip) > 0 { // the same one for each snapshot
			group.proxy, group.key, group.labels = one.proxy, one.key, one.labels
		}
		group.addServed(s, ip)
	}
	slices.SortFunc(m.Workloads, func(a, b *Workload) int {
		return cmp.Or(
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Account, b.Account),
			a.proxy.Addresses[0].Compare(b.proxy.Addresses[0]),
		)
	})
	for _, w := range m.Workloads {
		slices.SortFunc(w.Served, compareServed)
		w.Served = slices.Compact(w.Served)
		for i, x := range w.Served {
			if i == 0 || w.Served[i-1].Service != x.Service {
				m.servers[x.Service] = append(m.servers[x.Service], w)
			}
		}
	}
	return m
}

// compareServed compares by hostname, namespace, port and target.
func compareServed(a, b Served) int {
	return cmp.Or(
		cmp.Compare(a.Service.Host, b.Service.Host), cmp.Compare(a.Service.Namespace, b.Service.Namespace),
		cmp.Compare(a.Port, b.Port), cmp.Compare(a.Target, b.Target),
	)
}

// newWorkload returns the group of one workload, without instances and service ports, with the
// proxy that it would have at ip. It is a gateway if a Gateway selects it, a sidecar if it accepts
// mutual TLS, and otherwise has no proxy and no Key. identity is the NodeMetadata.Identity of the
// proxy.
func newWorkload(s *snapshot.Snapshot, ip netip.Addr, w *mesh.Workload, identity string) *Workload {
	x := &Workload{
		Namespace: w.Namespace, Name: cmp.Or(w.Owner, w.Name), Account: w.Account, Role: NoProxy, labels: w.Labels,
	}
	kind := mesh.SidecarProxy
	switch {
	case offline.IsGateway(s, w):
		x.Role, kind = Gateway, mesh.RouterProxy
	case w.TLS:
		x.Role = Sidecar
	}
	p := offline.NewProxy(kind, w.Name, w.Namespace, ip)
	p.DNSDomain = w.Namespace + ".svc." + s.Settings.Domain
	p.Labels, p.Locality, p.Network, p.ClusterID = w.Labels, w.Locality, w.Network, cmp.Or(w.Cluster, p.ClusterID)
	p.Metadata.Identity = identity
	x.proxy = p
	if x.Role != NoProxy {
		x.key = view.KeyFor(s, p)
		x.Modes = s.PeerModes(x.key.PeerAuthentications)
	}
	return x
}

// classOf returns the class of w from known. If there is none, it adds a new one to known and
// m.classes. It returns nil for a workload without a proxy.
func (m *Mesh) classOf(w *Workload, known map[classKey]*class) *class {
	if w.Role == NoProxy {
		return nil
	}
	k := classKey{w.Namespace, w.Role, w.key.Sidecar, w.key.DestinationRules, w.key.Gateways}
	c := known[k]
	if c == nil {
		c = &class{namespace: w.Namespace, role: w.Role, sidecar: w.key.Sidecar, view: view.Build(m.Snapshot, w.key)}
		known[k] = c
		m.classes = append(m.classes, c)
	}
	return c
}

// addServed appends to w.Served the service ports that are served at an address of the workload,
// even if they are there already. Ports that proxies do not capture are left out, and so are ports
// of services that do not exist.
func (w *Workload) addServed(s *snapshot.Snapshot, ip netip.Addr) {
	at := s.Address(ip)
	for _, t := range at.Targets {
		svc := s.Service(t.Service)
		if svc == nil {
			continue
		}
		for _, port := range svc.Ports {
			if port.Name == t.ServicePort && port.Protocol.Captured() {
				w.Served = append(w.Served, Served{t.Service, port.Number, t.Port})
			}
		}
	}
}

// Address returns the address of the first instance, from which calls are evaluated.
func (w *Workload) Address() netip.Addr { return w.proxy.Addresses[0] }
