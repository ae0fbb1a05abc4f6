package snapshot

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/cow"
)

// Address contains the workloads and service ports at one IP address. It is immutable, and its
// pointer changes only with its content.
type Address struct {
	// Workloads are sorted by namespace and name. Pods in the host network share the address of
	// their node.
	Workloads []*mesh.Workload
	// Targets are the service ports that are served at the address, sorted by service and port.
	Targets []Target
}

// Target is a service port that is served at a port of an address.
type Target struct {
	Service     mesh.ServiceKey
	ServicePort string // the port's name
	Port        uint32
}

// newAddresses returns an empty index of workloads and service ports by IP address.
func newAddresses() *cow.Map[netip.Addr, *Address] { return cow.New[netip.Addr, *Address]() }

// Address returns the workloads and service ports at an IP address, or nil if there are none.
func (s *Snapshot) Address(a netip.Addr) *Address { return s.byAddress.Get(a) }

// Workloads returns an iterator over all workloads that have an IP address, with the address: a
// workload once for each of its IP addresses, in no particular order.
func (s *Snapshot) Workloads() iter.Seq2[netip.Addr, *mesh.Workload] {
	return func(yield func(netip.Addr, *mesh.Workload) bool) {
		for ip, a := range s.byAddress.All() {
			for _, w := range a.Workloads {
				if !yield(ip, w) {
					return
				}
			}
		}
	}
}

// WorkloadAccounts returns an iterator over the SPIFFE IDs of all workloads with an address. It may
// contain duplicates. Workloads without an account are skipped.
func (s *Snapshot) WorkloadAccounts() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, w := range s.Workloads() {
			if w.Account != "" && !yield(w.Account) {
				return
			}
		}
	}
}

// addressEdit edits the index by address.
type addressEdit struct {
	*cow.Edit[netip.Addr, *Address]
}

// parseAddresses returns the valid IP addresses of a list. DNS names and Unix sockets are skipped.
// IPv4-mapped addresses become IPv4.
func parseAddresses(texts []string) []netip.Addr {
	var list []netip.Addr
	for _, t := range texts {
		if a, err := netip.ParseAddr(t); err == nil { // DNS names and unix sockets have no IP
			list = append(list, a.Unmap())
		}
	}
	return list
}

// update calls f with a copy of the entry of an address, empty if there is none, and stores the
// result, or deletes the entry if it is then empty.
func (e addressEdit) update(a netip.Addr, f func(*Address)) {
	var next Address
	if old := e.Get(a); old != nil {
		next = Address{Workloads: slices.Clone(old.Workloads), Targets: slices.Clone(old.Targets)}
	}
	f(&next)
	if len(next.Workloads) == 0 && len(next.Targets) == 0 {
		e.Delete(a)
		return
	}
	e.Set(a, &next)
}

// replaceWorkload removes the workload with old's key from old's IP addresses, and then adds now to
// its own ones. Either may be nil. Addresses that are no IP addresses are ignored. The workloads of
// an address stay sorted by namespace, name and cluster.
func (e addressEdit) replaceWorkload(old, now *mesh.Workload) {
	if old != nil {
		for _, a := range parseAddresses(old.Addresses) {
			e.update(a, func(at *Address) {
				at.Workloads = slices.DeleteFunc(
					at.Workloads,
					func(w *mesh.Workload) bool { return keyOf(w) == keyOf(old) },
				)
			})
		}
	}
	if now != nil {
		for _, a := range parseAddresses(now.Addresses) {
			e.update(a, func(at *Address) {
				at.Workloads = append(at.Workloads, now)
				slices.SortFunc(at.Workloads, func(a, b *mesh.Workload) int {
					return cmp.Or(
						cmp.Compare(a.Namespace, b.Namespace),
						cmp.Compare(a.Name, b.Name),
						cmp.Compare(a.Cluster, b.Cluster),
					)
				})
			})
		}
	}
}

// replaceEndpoints replaces the targets of service k at the addresses of its old and new endpoints,
// which may be nil. The targets of an address stay sorted, and other services' targets stay. It
// returns the addresses whose targets changed, in no particular order.
func (e addressEdit) replaceEndpoints(k mesh.ServiceKey, old, now *EndpointSet) (differ []netip.Addr) {
	was, is := targetsByAddress(old), targetsByAddress(now)
	for a, list := range was {
		if slices.Equal(list, is[a]) {
			delete(is, a)
			continue
		}
		differ = append(differ, a)
		e.update(a, func(at *Address) {
			at.Targets = slices.DeleteFunc(at.Targets, func(t Target) bool { return t.Service == k })
		})
	}
	for a, list := range is {
		differ = append(differ, a)
		e.update(a, func(at *Address) {
			at.Targets = append(at.Targets, list...)
			slices.SortFunc(at.Targets, compareTargets)
		})
	}
	return differ
}

// compareTargets orders targets by host, namespace, the service port's name, and port.
func compareTargets(a, b Target) int {
	return cmp.Or(cmp.Compare(a.Service.Host, b.Service.Host), cmp.Compare(a.Service.Namespace, b.Service.Namespace),
		cmp.Compare(a.ServicePort, b.ServicePort), cmp.Compare(a.Port, b.Port))
}

// targetsByAddress returns the targets of the endpoints of s by IP address, in the order of the
// endpoints and with duplicates. An endpoint has a target at its Address and at each of
// MoreAddresses, unless these are no IP addresses. The map is empty for nil.
func targetsByAddress(s *EndpointSet) map[netip.Addr][]Target {
	m := map[netip.Addr][]Target{}
	if s == nil {
		return m
	}
	for _, e := range s.Endpoints {
		t := Target{Service: s.Service, ServicePort: e.ServicePort, Port: e.Port}
		for _, a := range parseAddresses(append([]string{e.Address}, e.MoreAddresses...)) {
			m[a] = append(m[a], t)
		}
	}
	return m
}
