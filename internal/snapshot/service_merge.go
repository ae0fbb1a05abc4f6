package snapshot

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// mergeService merges all definitions of a service, with their settings (withSettings), into the
// first one. It returns nil if there is none, and the first one itself if no other is merged.
// Kubernetes Services of other clusters add addresses and accounts, ServiceEntries with equal
// resolution, selector and exportTo also new ports, services of several datacenters of Consul only
// ports, and all others only endpoints (edit.entryEndpoints, edit.consulEndpoints). It replaces the
// service's Problems: Warnings about parts that are ignored or differ, perhaps several for a
// definition. Other registries have none.
func (e *edit) mergeService(k mesh.ServiceKey) *mesh.Service {
	list := e.definitions.byKey[k]
	if len(list) == 0 {
		e.setProblems(joinSource, &mesh.Problems{Scope: scopeOf(k)})
		return nil
	}
	j := serviceMerge{first: e.withSettings(list[0])}
	j.merged = *j.first
	for _, s := range list[1:] {
		j.addDefinition(e.withSettings(s))
	}
	for i := range j.problems {
		if c := e.configs.Get(j.problems[i].Key); c != nil {
			j.problems[i].Origin = c.Origin
		}
	}
	slices.SortFunc(j.problems, config.Problem.Compare)
	e.setProblems(joinSource, &mesh.Problems{Scope: scopeOf(k), List: j.problems})
	if !j.changed {
		return j.first
	}
	j.merged.Hash = 0
	return j.merged.Sealed()
}

// joinSource is the source of the Problems that merging finds.
const joinSource = "services"

// scopeOf returns the scope of the Problems of a service, "namespace/host".
func scopeOf(k mesh.ServiceKey) string { return k.Namespace + "/" + string(k.Host) }

// serviceMerge is the merge of several definitions of a service.
type serviceMerge struct {
	first    *mesh.Service
	merged   mesh.Service
	changed  bool // merged differs from first and has its own copies of the lists
	problems []config.Problem
}

// addDefinition merges one more definition s. If s and the first one are Kubernetes Services, the
// addresses and accounts of s are added; two services of Consul are merged by addDatacenter. A
// ServiceEntry is merged by addEntry if the first definition is a ServiceEntry too, and otherwise
// ignored, with a Problem. Other definitions are ignored without one.
func (j *serviceMerge) addDefinition(s *mesh.Service) {
	switch {
	case j.first.Provider == mesh.Kubernetes && s.Provider == mesh.Kubernetes:
		j.cloneLists()
		j.addClusterAddresses(s)
		j.merged.Accounts = appendNew(j.merged.Accounts, s.Accounts)
	case j.first.Provider == mesh.Consul && s.Provider == mesh.Consul:
		j.addDatacenter(s)
	case !s.Provider.IsEntry():
		// Users cannot fix definitions of other registries, so no Problem is reported.
	case !j.first.Provider.IsEntry():
		j.addProblem(s, "spec.hosts",
			"%s also has this host and takes precedence: only this one's endpoints are used, for ports that both have",
			j.first.From)
	default:
		j.addEntry(s)
	}
}

// addDatacenter merges a service of another datacenter of Consul: it adds ports, but no addresses
// or accounts. It also reports a Problem if the addresses of s are DNS names and the first
// definition's addresses are not, since these endpoints cannot be used.
func (j *serviceMerge) addDatacenter(s *mesh.Service) {
	if s.Resolution == mesh.DNS && j.first.Resolution == mesh.Static {
		j.addProblem(s, "instances",
			"%s takes precedence and has IP addresses: instances of this one with DNS names as addresses are not used", j.first.From)
	}
	j.cloneLists()
	for _, p := range s.Ports {
		j.addPort(s, p)
	}
}

// addClusterAddresses adds the addresses that a service has in the cluster of s to ClusterAddresses
// of j.merged. In the first call it adds the addresses of the first definition too. Callers without
// a cluster, or in a cluster without the service, use the latter: proxies capture any of them. If
// several definitions of a cluster have addresses, the first one's are used.
func (j *serviceMerge) addClusterAddresses(s *mesh.Service) {
	if j.merged.ClusterAddresses == nil {
		j.merged.ClusterAddresses = map[mesh.ClusterID][]string{}
		if len(j.first.Addresses) > 0 {
			j.merged.ClusterAddresses[j.first.Cluster] = j.first.Addresses
		}
	}
	if len(s.Addresses) > 0 && j.merged.ClusterAddresses[s.Cluster] == nil {
		j.merged.ClusterAddresses[s.Cluster] = s.Addresses
	}
}

// addEntry merges a ServiceEntry into the one with precedence. It refuses s, with a Problem on s,
// if resolution, workloadSelector or exportTo differ. A different location is reported, but s is
// merged: its ports, addresses, allocated addresses and accounts are added, and its object to Also.
// Addresses are allocated only if the first definition permits it and none has an address.
func (j *serviceMerge) addEntry(s *mesh.Service) {
	const aside = "%s also has this host and takes precedence: it differs in %s, so only this one's endpoints are used, for ports that both have"
	switch {
	case s.Resolution != j.first.Resolution:
		j.addProblem(s, "spec.resolution", aside, j.first.From, "resolution")
		return
	case !sameSelector(s, j.first):
		j.addProblem(s, "spec.workloadSelector", aside, j.first.From, "workloadSelector")
		return
	case !sameSet(s.ExportTo, j.first.ExportTo):
		j.addProblem(s, "spec.exportTo", aside, j.first.From, "exportTo")
		return
	case s.MeshExternal != j.first.MeshExternal:
		j.addProblem(s, "spec.location", "is another than that of %s, which has this host and takes precedence",
			j.first.From)
	}
	j.cloneLists()
	for _, p := range s.Ports {
		j.addPort(s, p)
	}
	j.merged.Addresses = appendNew(j.merged.Addresses, s.Addresses)
	j.merged.Accounts = appendNew(j.merged.Accounts, s.Accounts)
	j.merged.Allocates = j.merged.Allocates && len(j.merged.Addresses) == 0
	j.merged.Allocated = appendNew(j.merged.Allocated, s.Allocated)
	j.merged.Also = append(j.merged.Also, s.From)
}

// addPort adds a port of s unless the port number exists. It reports a Problem if the existing port
// has another protocol. Endpoints refer to ports by name, so a port whose name another number has
// gets the suffix "-NUMBER".
func (j *serviceMerge) addPort(s *mesh.Service, p mesh.Port) {
	if i := slices.IndexFunc(j.merged.Ports, func(o mesh.Port) bool { return o.Number == p.Number }); i >= 0 {
		if o := j.merged.Ports[i]; o.Protocol != p.Protocol {
			j.addProblem(s, "spec.ports",
				"port %d is %s in %s, which also has this host and takes precedence", p.Number,
				protocolName(o.Protocol), j.first.From)
		}
		return
	}
	if slices.ContainsFunc(j.merged.Ports, func(o mesh.Port) bool { return o.Name == p.Name }) {
		p.Name += "-" + strconv.FormatUint(uint64(p.Number), 10)
	}
	j.merged.Ports = append(j.merged.Ports, p)
}

// protocolName returns the name of a protocol for the reason of a Problem, "of no declared
// protocol" for mesh.Auto.
func protocolName(p mesh.Protocol) string {
	if p == mesh.Auto {
		return "of no declared protocol"
	}
	return string(p)
}

// cloneLists copies the lists of j.merged before the first change, because they are shared with
// j.first. It sets j.changed, and does nothing if that is set.
func (j *serviceMerge) cloneLists() {
	if !j.changed {
		j.changed = true
		j.merged.Addresses, j.merged.Ports = slices.Clone(j.merged.Addresses), slices.Clone(j.merged.Ports)
		j.merged.Accounts, j.merged.Allocated = slices.Clone(j.merged.Accounts), slices.Clone(j.merged.Allocated)
	}
}

// addProblem adds a Warning about a field of the object of definition s; the reason is formatted
// like Sprintf.
func (j *serviceMerge) addProblem(s *mesh.Service, field, format string, args ...any) {
	j.problems = append(
		j.problems,
		config.Problem{Code: code.ServiceConflict, Key: s.From, Field: field, Reason: fmt.Sprintf(format, args...),
			Severity: config.Warning},
	)
}

// appendNew appends the elements of more that list does not contain, and may reuse the memory of
// list.
func appendNew(list, more []string) []string {
	for _, a := range more {
		if !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}

// sameSelector reports whether two services have equal selectors; nil and empty differ.
func sameSelector(a, b *mesh.Service) bool {
	return (a.Selector == nil) == (b.Selector == nil) && maps.Equal(a.Selector, b.Selector)
}

// sameSet reports whether two lists have the same elements in any order.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
