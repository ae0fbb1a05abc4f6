package snapshot

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// join makes one service of all definitions of a key, nil if there is none, and notes what of them does not count.
//
// The first one counts, and others add to it what they can. Kubernetes Services are the same service in several clusters, and
// add their addresses and accounts. ServiceEntries add ports, addresses and names of certificates to one like them. What is not like
// the first adds endpoints alone: see edit.entryEndpoints.
func (e *edit) join(k mesh.ServiceKey) *mesh.Service {
	list := e.claims.byKey[k]
	if len(list) == 0 {
		e.setProblems(joinSource, &mesh.Problems{Scope: scopeOf(k)})
		return nil
	}
	j := joining{first: list[0], whole: *list[0]}
	for _, s := range list[1:] {
		j.add(s)
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
	j.whole.Hash = 0
	return j.whole.Sealed()
}

// joinSource is whose Problems they are that are found when services are joined.
const joinSource = "services"

func scopeOf(k mesh.ServiceKey) string { return k.Namespace + "/" + string(k.Host) }

// joining is a service that is being made of several definitions.
type joining struct {
	first    *mesh.Service
	whole    mesh.Service
	changed  bool // whole is not first any more, and has lists of its own
	problems []config.Problem
}

func (j *joining) add(s *mesh.Service) {
	switch {
	case j.first.Provider == mesh.Kubernetes && s.Provider == mesh.Kubernetes:
		j.own()
		j.addHome(s)
		j.whole.Accounts = appendNew(j.whole.Accounts, s.Accounts)
	case s.Provider != mesh.External:
		// What other registries say is not for users to mend.
	case j.first.Provider != mesh.External:
		j.wrong(s, "spec.hosts", "%s has this host, and counts: of this one only endpoints do, for ports that the other has too", j.first.From)
	default:
		j.addEntry(s)
	}
}

// addHome notes the addresses that a service has in another cluster. For callers without a cluster, or of one that does not have the
// service, those of the first definition are as good as any: whatever is sent there, proxies take.
func (j *joining) addHome(s *mesh.Service) {
	if j.whole.ClusterAddresses == nil {
		j.whole.ClusterAddresses = map[mesh.ClusterID][]string{}
		if len(j.first.Addresses) > 0 {
			j.whole.ClusterAddresses[j.first.Cluster] = j.first.Addresses
		}
	}
	if len(s.Addresses) > 0 && j.whole.ClusterAddresses[s.Cluster] == nil {
		j.whole.ClusterAddresses[s.Cluster] = s.Addresses
	}
}

// addEntry adds a ServiceEntry to one that counts before it.
func (j *joining) addEntry(s *mesh.Service) {
	const aside = "%s has this host, and counts: it differs in %s, so of this one only endpoints do, for ports that the other has too"
	switch {
	case s.Resolution != j.first.Resolution:
		j.wrong(s, "spec.resolution", aside, j.first.From, "resolution")
		return
	case !sameSelector(s, j.first):
		j.wrong(s, "spec.workloadSelector", aside, j.first.From, "workloadSelector")
		return
	case !sameSet(s.ExportTo, j.first.ExportTo):
		j.wrong(s, "spec.exportTo", aside, j.first.From, "exportTo")
		return
	case s.MeshExternal != j.first.MeshExternal:
		j.wrong(s, "spec.location", "is another than that of %s, which has this host and counts", j.first.From)
	}
	j.own()
	for _, p := range s.Ports {
		j.addPort(s, p)
	}
	j.whole.Addresses = appendNew(j.whole.Addresses, s.Addresses)
	j.whole.Accounts = appendNew(j.whole.Accounts, s.Accounts)
	j.whole.Allocates = j.whole.Allocates && len(j.whole.Addresses) == 0
	j.whole.Allocated = appendNew(j.whole.Allocated, s.Allocated)
	j.whole.Also = append(j.whole.Also, s.From)
}

// addPort adds a port, unless there is one of its number. Endpoints are filed under the names of ports, so one whose name
// another number has is given another name.
func (j *joining) addPort(s *mesh.Service, p mesh.Port) {
	if i := slices.IndexFunc(j.whole.Ports, func(o mesh.Port) bool { return o.Number == p.Number }); i >= 0 {
		if o := j.whole.Ports[i]; o.Protocol != p.Protocol {
			j.wrong(s, "spec.ports", "port %d is %s in %s, which has this host too and counts", p.Number, protocolName(o.Protocol), j.first.From)
		}
		return
	}
	if slices.ContainsFunc(j.whole.Ports, func(o mesh.Port) bool { return o.Name == p.Name }) {
		p.Name += "-" + strconv.FormatUint(uint64(p.Number), 10)
	}
	j.whole.Ports = append(j.whole.Ports, p)
}

func protocolName(p mesh.Protocol) string {
	if p == mesh.Auto {
		return "of no declared protocol"
	}
	return string(p)
}

// own gives whole lists that are nobody else's.
func (j *joining) own() {
	if !j.changed {
		j.changed = true
		j.whole.Addresses, j.whole.Ports = slices.Clone(j.whole.Addresses), slices.Clone(j.whole.Ports)
		j.whole.Accounts, j.whole.Allocated = slices.Clone(j.whole.Accounts), slices.Clone(j.whole.Allocated)
	}
}

func (j *joining) wrong(s *mesh.Service, field, format string, args ...any) {
	j.problems = append(j.problems, config.Problem{Key: s.From, Field: field, Reason: fmt.Sprintf(format, args...), Severity: config.Warning})
}

func appendNew(list, more []string) []string {
	for _, a := range more {
		if !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}

func sameSelector(a, b *mesh.Service) bool {
	return (a.Selector == nil) == (b.Selector == nil) && maps.Equal(a.Selector, b.Selector)
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
