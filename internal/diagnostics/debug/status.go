package debug

import (
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// Problem is a config.Problem as JSON.
type Problem struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Origin    string `json:"origin,omitempty"`
	Field     string `json:"field,omitempty"`
	Reason    string `json:"reason"`
	Severity  string `json:"severity"`
}

// String gives one line with everything a person needs to find and mend it.
func (p Problem) String() string {
	line := config.Problem{
		Key:   config.Key{Kind: api.Kind(p.Kind), Namespace: p.Namespace, Name: p.Name},
		Field: p.Field, Reason: p.Reason, Origin: p.Origin,
	}
	return p.Severity + ": " + line.String()
}

func (p *Pages) problemz(q question) (answer, error) {
	list := []Problem{}
	for _, x := range p.problems(p.Proxies.Connections()).all {
		if want := q.Get("namespace"); want != "" && want != x.Key.Namespace {
			continue
		}
		list = append(list, Problem{
			Kind: string(x.Key.Kind), Namespace: x.Key.Namespace, Name: x.Key.Name, Origin: x.Origin,
			Field: x.Field, Reason: x.Reason, Severity: string(x.Severity),
		})
	}
	return written(q, list)
}

// FoundInViews gives what comes up in the Views of connected proxies, sorted. It builds each of them: that takes its time.
func (p *Pages) FoundInViews() []config.Problem {
	list := p.Proxies.Connections()
	return slices.Concat(p.conflicts(list), p.unserved(list), p.unmatchedVersions(list))
}

// Refusals gives what proxies refuse now, as Problems of the objects that the resources came from.
func (p *Pages) Refusals() []config.Problem { return p.refusals() }

// problems are all that are known, sorted, each once.
type problems struct {
	all []config.Problem
	// conflicts is how many of them come of several things that want one place.
	conflicts int
}

func (p *Pages) problems(list []push.Connection) problems {
	conflicts := p.conflicts(list)
	all := slices.Concat(p.Snapshot().Problems(), conflicts, p.unserved(list), p.unmatchedVersions(list), p.refusals())
	if p.Analysis != nil {
		all = append(all, p.Analysis()...)
	}
	slices.SortFunc(all, config.Problem.Compare)
	return problems{slices.Compact(all), len(conflicts)}
}

// conflicts gives what comes up in the Views of connected proxies, sorted, each once.
func (p *Pages) conflicts(list []push.Connection) []config.Problem {
	if p.Conflicts == nil {
		return nil
	}
	s := p.Snapshot()
	seen := map[view.Key]bool{}
	var out []config.Problem
	for _, c := range list {
		k := view.KeyFor(s, c.Proxy)
		if k.EnvoyFilterPatches == (snapshot.PatchNames{}) {
			k.Inbound = "" // it is about the outbound side
		}
		if !seen[k] {
			seen[k] = true
			out = append(out, p.Conflicts(view.Build(s, k))...)
		}
	}
	slices.SortFunc(out, config.Problem.Compare)
	return slices.Compact(out)
}

// unserved gives what connected proxies do not get of what objects ask, sorted, each once.
func (p *Pages) unserved(list []push.Connection) []config.Problem {
	if p.Unserved == nil {
		return nil
	}
	s := p.Snapshot()
	var out []config.Problem
	for _, c := range list {
		if k := view.KeyFor(s, c.Proxy); k.Proxyless {
			out = append(out, p.Unserved(view.Build(s, k), c.Proxy, c.Asked)...)
		}
	}
	slices.SortFunc(out, config.Problem.Compare)
	return slices.Compact(out)
}

// event is one entry of push_status: which proxy it is about, and what there is to say.
type event struct {
	Proxy   string `json:"proxy,omitempty"`
	Message string `json:"message,omitempty"`
}

// pushStatus gives what came up when the current state was made and pushed, in istiod's shape: the metric that counts it,
// what it is about, who has it. What was mended is not in it any more.
func (p *Pages) pushStatus(q question) (answer, error) {
	out := map[string]map[string]event{}
	note := func(metric, about string, e event) {
		if out[metric] == nil {
			out[metric] = map[string]event{}
		}
		out[metric][about] = e
	}
	for _, n := range p.Proxies.Nacks() {
		if n.Standing {
			note("pilot_total_xds_rejects", api.ShortType(n.TypeURL), event{name(n.Proxy), n.Message})
		}
	}
	connections := p.Proxies.Connections()
	for _, c := range p.conflicts(connections) {
		note("pilot_conflict_outbound_listener", c.Key.String(), event{Message: c.Reason})
	}
	s := p.Snapshot()
	for _, c := range connections {
		if Orphan(s, c.Proxy) {
			note("pilot_no_ip", name(c.Proxy), event{name(c.Proxy), "no workload or endpoint is known at the proxy's address"})
		}
	}
	for _, svc := range Empty(s) {
		note("pilot_eds_no_instances", string(svc.Host), event{Message: "the service has no endpoints"})
	}
	return written(q, out)
}

// Orphan says that nothing is known at a proxy's addresses: no workload, no endpoint.
func Orphan(s *snapshot.Snapshot, p *mesh.Proxy) bool {
	return !slices.ContainsFunc(p.Addresses, func(a netip.Addr) bool { return s.Address(a) != nil })
}

// Empty gives the services whose endpoints the control plane is to know and that have none.
func Empty(s *snapshot.Snapshot) []*mesh.Service {
	var list []*mesh.Service
	for _, svc := range s.Services() {
		if svc.Resolution == mesh.Static && len(s.Endpoints(svc.ServiceKey).Endpoints) == 0 {
			list = append(list, svc)
		}
	}
	return list
}
