package snapshot

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

type workloadKey struct {
	provider        mesh.Provider
	cluster         mesh.ClusterID
	namespace, name string
}

// keyOf returns the key of a workload: provider, cluster, namespace and name.
func keyOf(w *mesh.Workload) workloadKey {
	return workloadKey{w.Provider, w.Cluster, w.Namespace, w.Name}
}

// workloads is the Builder's mutable index of workloads for label selectors. Pods and
// WorkloadEntries are kept apart because most services select only one of them: a Kubernetes
// Service has its pods from EndpointSlices, and would search all pods of its namespace for
// WorkloadEntries.
type workloads struct {
	pods, entries workloadsByNamespace
}

type workloadsByNamespace map[string]map[workloadKey]*mesh.Workload

// newWorkloads returns an empty index.
func newWorkloads() workloads {
	return workloads{pods: workloadsByNamespace{}, entries: workloadsByNamespace{}}
}

// of returns the index of the pods or of the WorkloadEntries of a provider.
func (ws workloads) of(p mesh.Provider) workloadsByNamespace {
	if p == mesh.Kubernetes {
		return ws.pods
	}
	return ws.entries
}

// workload returns the workload with a key, or nil if there is none.
func (ws workloads) workload(k workloadKey) *mesh.Workload {
	return ws.of(k.provider)[k.namespace][k]
}

// applyWorkload applies one event about a pod or WorkloadEntry, and updates the index by address.
// It adds the addresses before and after the change to delta.Workloads. It marks the endpoints of
// all services that select the workload before or after the change. It ignores an event that
// changes nothing.
func (e *edit) applyWorkload(op mesh.Op, w *mesh.Workload) {
	k := keyOf(w)
	old := e.workloads.workload(k)
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
		for _, a := range parseAddresses(x.Addresses) {
			add(&e.delta.Workloads, a)
		}
		// services that this Apply adds are merged in any case
		for _, k := range e.definitions.selectingServices(x) {
			e.dirtyEndpoints[k] = struct{}{}
		}
	}
}

// setWorkload stores a workload, or deletes it if w is nil.
func (ws workloads) setWorkload(k workloadKey, w *mesh.Workload) {
	index := ws.of(k.provider)
	ns := index[k.namespace]
	if w == nil {
		delete(ns, k)
		return
	}
	if ns == nil {
		ns = map[workloadKey]*mesh.Workload{}
		index[k.namespace] = ns
	}
	ns[k] = w
}

// selectsWorkload reports whether the service's selector matches the workload, in the same
// namespace. A definition of a Kubernetes Service selects only workloads of its own cluster.
// SelectsPods and SelectsWorkloadEntries limit the kind of workload. An empty selector matches all,
// nil none.
func selectsWorkload(s *mesh.Service, w *mesh.Workload) bool {
	if s.Provider == mesh.Kubernetes && s.Cluster != w.Cluster {
		return false
	}
	if w.Provider == mesh.Kubernetes && !s.SelectsPods || w.Provider != mesh.Kubernetes && !s.SelectsWorkloadEntries {
		return false
	}
	all := s.Selector != nil && len(s.Selector) == 0
	return s.Namespace == w.Namespace && (all || SelectorMatches(s.Selector, w.Labels))
}

// SelectorMatches reports whether labels contain all labels of the selector. An empty selector
// matches nothing; callers must handle APIs in which it matches everything.
func SelectorMatches(selector, labels map[string]string) bool {
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

// selectedEndpoints returns the endpoints of all workloads that the service selects, sorted by
// workload: one per port, or for an InferencePool one per PoolPorts. It leaves out workloads that
// are not ready, unless the service publishes them, addresses that its resolution does not accept,
// and ports without a target. It returns nil for a service without a selector.
func (ws workloads) selectedEndpoints(s *mesh.Service) []*mesh.Endpoint {
	if s.Selector == nil {
		return nil
	}
	var list []*mesh.Endpoint
	if s.SelectsPods {
		list = appendSelected(list, s, ws.pods[s.Namespace])
	}
	if s.SelectsWorkloadEntries {
		list = appendSelected(list, s, ws.entries[s.Namespace])
	}
	// of several at one address the first is used
	slices.SortFunc(list, func(a, b *mesh.Endpoint) int {
		return cmp.Or(
			cmp.Compare(a.Workload, b.Workload),
			cmp.Compare(a.Cluster, b.Cluster),
			cmp.Compare(a.ServicePort, b.ServicePort),
			cmp.Compare(a.Port, b.Port),
		)
	})
	return list
}

// appendSelected appends the endpoints of those workloads that the service selects (see
// workloads.selectedEndpoints), in no particular order, and returns the extended list.
func appendSelected(list []*mesh.Endpoint, s *mesh.Service, of map[workloadKey]*mesh.Workload) []*mesh.Endpoint {
	for _, w := range of {
		if !w.Ready && !s.PublishNotReady || !AcceptsAddress(s, w.MainAddress()) || !selectsWorkload(s, w) {
			continue
		}
		for _, p := range s.Ports {
			for _, port := range targetPorts(s, p, w) {
				list = append(list, newEndpoint(s, w, p, port))
			}
		}
	}
	return list
}

// targetPorts returns the ports of a workload that a service port maps to: the result of
// targetPort, or all PoolPorts of an InferencePool. It returns nil if the workload does not have
// the port.
func targetPorts(s *mesh.Service, p mesh.Port, w *mesh.Workload) []uint32 {
	if len(s.PoolPorts) > 0 {
		return s.PoolPorts
	}
	if port := targetPort(s, p, w); port != 0 {
		return []uint32{port}
	}
	return nil
}

// targetPort returns the port of a workload that a service port maps to, or 0 if the workload does
// not have it. A named target port is looked up in the workload's port map, then its container
// ports. Otherwise the port's name is looked up in the port map and, for ServiceEntries, in the
// container ports; the default is the target port, or else the port number.
func targetPort(s *mesh.Service, p mesh.Port, w *mesh.Workload) uint32 {
	switch {
	case p.TargetName != "":
		return cmp.Or(w.Ports[p.TargetName], w.ContainerPorts.Number(p.TargetName))
	case s.Provider.IsEntry():
		return cmp.Or(w.Ports[p.Name], w.ContainerPorts.Number(p.Name), p.Target, p.Number)
	default:
		return cmp.Or(w.Ports[p.Name], p.Target, p.Number)
	}
}

// newEndpoint returns the endpoint of a workload for a port of a service, at the workload's main
// address. It shares labels and addresses with w. A socket has port 0. Hostname is set only for a
// pod whose subdomain is the Kubernetes Service. Further addresses of the workload are in
// MoreAddresses.
func newEndpoint(s *mesh.Service, w *mesh.Workload, p mesh.Port, port uint32) *mesh.Endpoint {
	e := &mesh.Endpoint{
		Address: w.MainAddress(), Port: port, ServicePort: p.Name,
		Labels: w.Labels, Account: w.Account, Workload: w.Name, Owner: w.Owner, Namespace: w.Namespace,
		Node: w.Node, Locality: w.Locality, Network: w.Network, Cluster: w.Cluster, Weight: w.Weight, Health: w.Health,
		TLS: w.TLS,
	}
	if len(w.Addresses) > 1 {
		e.MoreAddresses = w.Addresses[1:]
	}
	if config.IsSocket(e.Address) { // a socket has no port
		e.Port = 0
	}
	if s.Provider == mesh.Kubernetes && w.Subdomain != "" && w.Subdomain == s.Name {
		e.Hostname = w.Hostname
	}
	return e
}

// ServicesWithSelector returns the services of a namespace that have a selector with labels, sorted
// by hostname. Callers must not modify the list.
func (s *Snapshot) ServicesWithSelector(namespace string) []*mesh.Service {
	return s.selecting[namespace]
}
