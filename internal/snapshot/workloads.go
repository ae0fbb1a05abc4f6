package snapshot

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/cow"
)

type workloadKey struct {
	provider        mesh.Provider
	cluster         mesh.ClusterID
	namespace, name string
}

func keyOf(w *mesh.Workload) workloadKey {
	return workloadKey{w.Provider, w.Cluster, w.Namespace, w.Name}
}

// workloads is the builder's own index of workloads: what selectors choose from.
type workloads struct {
	byNamespace map[string]map[workloadKey]*mesh.Workload
}

func newWorkloads() workloads {
	return workloads{byNamespace: map[string]map[workloadKey]*mesh.Workload{}}
}

// workload takes up one event about a pod or WorkloadEntry.
func (e *edit) workload(op mesh.Op, w *mesh.Workload) {
	k := keyOf(w)
	old := e.workloads.byNamespace[w.Namespace][k]
	if op == mesh.Delete && old == nil || op == mesh.Upsert && old != nil && old.Hash == w.Hash {
		return
	}
	if op == mesh.Delete {
		w = nil
	}
	e.setWorkload(k, w)
	e.addresses.replaceWorkload(old, w)
	for _, x := range []*mesh.Workload{old, w} {
		if x == nil {
			continue
		}
		for _, a := range addresses(x.Addresses) {
			add(&e.delta.Workloads, a)
		}
		for _, k := range e.claims.choosing(x) { // services that this Apply brings are joined anyway
			e.rejoin[k] = struct{}{}
		}
	}
}

func (ws workloads) set(k workloadKey, w *mesh.Workload) {
	ns := ws.byNamespace[k.namespace]
	if w == nil {
		delete(ns, k)
		return
	}
	if ns == nil {
		ns = map[workloadKey]*mesh.Workload{}
		ws.byNamespace[k.namespace] = ns
	}
	ns[k] = w
}

// selects says whether the workload is an endpoint of the service by label. A Kubernetes Service is the same in all clusters that have
// it, and in each of them it selects what is there.
func selects(s *mesh.Service, w *mesh.Workload) bool {
	if s.Provider == mesh.Kubernetes && s.Cluster != w.Cluster {
		return false
	}
	if w.Provider == mesh.Kubernetes && !s.SelectsPods || w.Provider != mesh.Kubernetes && !s.SelectsWorkloadEntries {
		return false
	}
	all := s.Selector != nil && len(s.Selector) == 0
	return s.Namespace == w.Namespace && (all || Selects(s.Selector, w.Labels))
}

// Selects says whether labels have all that the selector asks for. An empty selector selects nothing here: where the
// API has it select everything, the caller knows.
func Selects(selector, labels map[string]string) bool {
	if len(selector) == 0 {
		return false
	}
	for k, v := range selector {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// endpoints makes the endpoints that the service's selector chooses.
func (ws workloads) endpoints(s *mesh.Service) []*mesh.Endpoint {
	if s.Selector == nil || !s.SelectsPods && !s.SelectsWorkloadEntries {
		return nil
	}
	var list []*mesh.Endpoint
	for _, w := range ws.byNamespace[s.Namespace] {
		if !w.Ready && !s.PublishNotReady || !takes(s, w.MainAddress()) || !selects(s, w) {
			continue
		}
		for _, p := range s.Ports {
			if port := targetPort(s, p, w); port != 0 {
				list = append(list, endpoint(s, w, p, port))
			}
		}
	}
	slices.SortFunc(list, func(a, b *mesh.Endpoint) int { // of those at one address the first counts
		return cmp.Or(cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.ServicePort, b.ServicePort))
	})
	return list
}

// targetPort resolves a service's port on a workload. A target port that is a name means the port of that name, which a pod
// has of its containers and a WorkloadEntry in its own map; that map may also have another number for the service's port, and so
// may a pod's containers for a ServiceEntry's. 0 means that the workload does not have the port.
func targetPort(s *mesh.Service, p mesh.Port, w *mesh.Workload) uint32 {
	switch {
	case p.TargetName != "":
		return cmp.Or(w.Ports[p.TargetName], w.ContainerPorts[p.TargetName])
	case s.Provider == mesh.External:
		return cmp.Or(w.Ports[p.Name], w.ContainerPorts[p.Name], p.Target, p.Number)
	default:
		return cmp.Or(w.Ports[p.Name], p.Target, p.Number)
	}
}

func endpoint(s *mesh.Service, w *mesh.Workload, p mesh.Port, port uint32) *mesh.Endpoint {
	e := &mesh.Endpoint{
		Address: w.MainAddress(), Port: port, ServicePort: p.Name,
		Labels: w.Labels, Account: w.Account, Workload: w.Name, Owner: w.Owner, Namespace: w.Namespace,
		Node: w.Node, Locality: w.Locality, Network: w.Network, Cluster: w.Cluster, Weight: w.Weight, Health: w.Health, TLS: w.TLS,
	}
	if len(w.Addresses) > 1 {
		e.MoreAddresses = w.Addresses[1:]
	}
	if strings.HasPrefix(e.Address, "unix://") { // a socket has no port
		e.Port = 0
	}
	if s.Provider == mesh.Kubernetes && w.Subdomain != "" && w.Subdomain == s.Name {
		e.Hostname = w.Hostname
	}
	return e
}

// Address is what lives at one IP: workloads, and endpoints that services list. It is a row.
type Address struct {
	// Workloads are sorted by namespace and name; host-network pods share their node's address.
	Workloads []*mesh.Workload
	// Targets are the service ports served here, sorted by service and port.
	Targets []Target
}

// Target says that a service's port is served by some port of an address.
type Target struct {
	Service     mesh.ServiceKey
	ServicePort string // the port's name
	Port        uint32
}

func newAddresses() *cow.Map[netip.Addr, *Address] { return cow.New[netip.Addr, *Address]() }

// At gives what lives at an IP, nil if nothing known does.
func (s *Snapshot) At(a netip.Addr) *Address { return s.byAddress.Get(a) }

// Workloads gives all workloads that have an address with each of their addresses.
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

// WorkloadAccounts gives the SPIFFE IDs of all workloads that have an address, some of them more than once.
func (s *Snapshot) WorkloadAccounts() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, w := range s.Workloads() {
			if w.Account != "" && !yield(w.Account) {
				return
			}
		}
	}
}

// Selecting gives the services of a namespace that have a selector, sorted by hostname.
func (s *Snapshot) Selecting(namespace string) []*mesh.Service { return s.selecting[namespace] }

type addressEdit struct {
	*cow.Edit[netip.Addr, *Address]
}

func addresses(texts []string) []netip.Addr {
	var list []netip.Addr
	for _, t := range texts {
		if a, err := netip.ParseAddr(t); err == nil { // DNS names and unix sockets have no IP
			list = append(list, a.Unmap())
		}
	}
	return list
}

func (e addressEdit) change(a netip.Addr, f func(*Address)) {
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

func (e addressEdit) replaceWorkload(old, now *mesh.Workload) {
	if old != nil {
		for _, a := range addresses(old.Addresses) {
			e.change(a, func(at *Address) {
				at.Workloads = slices.DeleteFunc(at.Workloads, func(w *mesh.Workload) bool { return keyOf(w) == keyOf(old) })
			})
		}
	}
	if now != nil {
		for _, a := range addresses(now.Addresses) {
			e.change(a, func(at *Address) {
				at.Workloads = append(at.Workloads, now)
				slices.SortFunc(at.Workloads, func(a, b *mesh.Workload) int {
					return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Cluster, b.Cluster))
				})
			})
		}
	}
}

// replaceEndpoints moves the targets of one service from the old set's addresses to the new set's. It gives the addresses
// at which they differ.
func (e addressEdit) replaceEndpoints(k mesh.ServiceKey, old, now *EndpointSet) (differ []netip.Addr) {
	was, is := targets(old), targets(now)
	for a, list := range was {
		if slices.Equal(list, is[a]) {
			delete(is, a)
			continue
		}
		differ = append(differ, a)
		e.change(a, func(at *Address) {
			at.Targets = slices.DeleteFunc(at.Targets, func(t Target) bool { return t.Service == k })
		})
	}
	for a, list := range is {
		differ = append(differ, a)
		e.change(a, func(at *Address) {
			at.Targets = append(at.Targets, list...)
			slices.SortFunc(at.Targets, compareTargets)
		})
	}
	return differ
}

func compareTargets(a, b Target) int {
	return cmp.Or(cmp.Compare(a.Service.Host, b.Service.Host), cmp.Compare(a.Service.Namespace, b.Service.Namespace),
		cmp.Compare(a.ServicePort, b.ServicePort), cmp.Compare(a.Port, b.Port))
}

func targets(s *EndpointSet) map[netip.Addr][]Target {
	m := map[netip.Addr][]Target{}
	if s == nil {
		return m
	}
	for _, e := range s.Endpoints {
		t := Target{Service: s.Service, ServicePort: e.ServicePort, Port: e.Port}
		for _, a := range addresses(append([]string{e.Address}, e.MoreAddresses...)) {
			m[a] = append(m[a], t)
		}
	}
	return m
}
