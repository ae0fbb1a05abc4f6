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

// Problem is a config.Problem in JSON form.
type Problem struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Origin is the position in a file: see config.Problem.
	Origin   string `json:"origin,omitempty" doc:"FILE#DOCUMENT:LINE:COLUMN of the field, for objects of files. Without the column it is that of the object."`
	Field    string `json:"field,omitempty"`
	Reason   string `json:"reason"`
	Severity string `json:"severity"`
	// Code is the stable code of the message: see docs/ANALYSIS.md.
	Code string `json:"code,omitempty"`
}

// NewProblem returns the JSON form of a config.Problem.
func NewProblem(x config.Problem) Problem {
	return Problem{
		Kind: string(x.Key.Kind), Namespace: x.Key.Namespace, Name: x.Key.Name, Origin: x.Origin,
		Field: x.Field, Reason: x.Reason, Severity: string(x.Severity), Code: string(x.MessageCode()),
	}
}

// problem returns the config.Problem of p, without code and conflict.
func (p Problem) problem() config.Problem {
	return config.Problem{
		Key:   config.Key{Kind: api.Kind(p.Kind), Namespace: p.Namespace, Name: p.Name},
		Field: p.Field, Reason: p.Reason, Origin: p.Origin, Severity: config.Severity(p.Severity),
	}
}

// Compare orders Problems by object, field, origin, reason and severity.
func (p Problem) Compare(o Problem) int { return p.problem().Compare(o.problem()) }

// String returns one line with the severity, the code, the object, the field and the reason.
func (p Problem) String() string {
	line := p.problem()
	if p.Code != "" {
		return p.Severity + " [" + p.Code + "]: " + line.String()
	}
	return p.Severity + ": " + line.String()
}

// problemz serves all Problems. ?namespace= limits the list to objects of one namespace. Each has
// the time since when it is known.
func (p *Pages) problemz(q question) (answer, error) {
	list := []DatedProblem{}
	for _, x := range p.Problems() {
		if want := q.Get("namespace"); want != "" && want != x.Key.Namespace {
			continue
		}
		list = append(list, p.Dated(x))
	}
	return jsonAnswer(q, list)
}

// FoundInViews returns the Problems that depend on connected proxies: conflicts in their Views,
// settings that are not served, and unmatched proxy versions. It is expensive, because it builds
// the View of each distinct Key.
func (p *Pages) FoundInViews() []config.Problem {
	list := p.Proxies.StreamStates()
	return slices.Concat(p.viewConflicts(), p.unservedSettings(list), p.unmatchedVersions(list))
}

// Problems returns all known Problems, as problemz lists them. It is as expensive as FoundInViews.
func (p *Pages) Problems() []config.Problem { return p.collectProblems(p.Proxies.StreamStates()).all }

// Refusals returns the currently rejected or quarantined resources as Problems of the objects that
// they were generated from.
func (p *Pages) Refusals() []config.Problem { return p.refusalProblems() }

// problems are all known Problems, sorted and without duplicates.
type problems struct {
	all []config.Problem
	// conflicts is the number of conflicts among them.
	conflicts int
}

// collectProblems returns all Problems, sorted and without duplicates, and the number of conflicts.
// Their sources are configuration and Analysis, Views, proxies in list, rejections and refused
// clients. If p.Now is set, it records when each was first found. If p.Complete is set, the list is
// its result.
func (p *Pages) collectProblems(list []push.StreamState) problems {
	conflicts := p.viewConflicts()
	ofProxies := slices.Concat([]config.Problem{}, conflicts, p.unservedSettings(list), p.unmatchedVersions(list),
		p.refusalProblems(), invalidMetadata(list))
	if p.Refused != nil {
		ofProxies = append(ofProxies, p.Refused()...)
	}
	configuration := p.configurationProblems()
	if p.Now != nil {
		p.seen.record(p.Now(), configuration, ofProxies)
	}
	all := slices.Concat(configuration, ofProxies)
	if p.Complete != nil {
		all = p.Complete(all)
	}
	slices.SortFunc(all, config.Problem.Compare)
	return problems{slices.Compact(all), len(conflicts)}
}

// configurationProblems returns the Problems that do not depend on proxies: the Problems of the
// snapshot and of Analysis.
func (p *Pages) configurationProblems() []config.Problem {
	list := p.Snapshot().Problems()
	if p.Analysis != nil {
		list = slices.Concat(list, p.Analysis())
	}
	return list
}

// viewConflicts returns the conflicts in the Views of the connected proxies, sorted and without
// duplicates, or nil if Conflicts is not set.
func (p *Pages) viewConflicts() []config.Problem {
	if p.Conflicts == nil {
		return nil
	}
	return p.Conflicts(p.Snapshot(), p.Proxies.ViewKeys())
}

// unservedSettings returns the Problems of settings that are not served to connected proxyless
// clients, sorted and without duplicates. It returns nil without p.Unserved or without such a
// client.
func (p *Pages) unservedSettings(list []push.StreamState) []config.Problem {
	isProxyless := func(x push.StreamState) bool { return view.IsProxyless(x.Proxy) }
	if p.Unserved == nil || !slices.ContainsFunc(list, isProxyless) {
		return nil
	}
	s := p.Snapshot()
	var out []config.Problem
	for _, c := range p.Proxies.Connections() {
		if view.IsProxyless(c.Proxy) {
			k := view.KeyFor(s, c.Proxy)
			out = append(out, p.Unserved(view.Build(s, k), c.Proxy, c.SubscribedNames)...)
		}
	}
	slices.SortFunc(out, config.Problem.Compare)
	return slices.Compact(out)
}

// event is one entry of push_status: the proxy that it concerns, and a message.
type event struct {
	Proxy   string `json:"proxy,omitempty"`
	Message string `json:"message,omitempty"`
}

// pushStatus serves the conditions of the current state and push, in istiod's form: by metric, then
// by affected object or proxy. They are conflicts of objects (Options.Conflicts), proxies of
// unknown workloads, and static services without endpoints. Of the rejections it has the newest of
// each resource type (TYPE/PROXY) by each proxy. Resolved conditions are not included.
func (p *Pages) pushStatus(q question) (answer, error) {
	out := map[string]map[string]event{}
	note := func(metric, about string, e event) {
		if out[metric] == nil {
			out[metric] = map[string]event{}
		}
		out[metric][about] = e
	}
	for _, n := range slices.Backward(p.Proxies.Nacks()) { // the newest last, which replaces older ones
		if n.Standing {
			proxy := DisplayName(n.Proxy)
			note("pilot_total_xds_rejects", api.ShortType(n.TypeURL)+"/"+proxy, event{proxy, n.Message})
		}
	}
	for _, c := range p.viewConflicts() {
		note("pilot_conflict_outbound_listener", c.Key.String(), event{Message: c.Reason})
	}
	s := p.Snapshot()
	for _, c := range p.Proxies.StreamStates() {
		if IsOrphan(s, c.Proxy) {
			note(
				"pilot_no_ip",
				DisplayName(c.Proxy),
				event{DisplayName(c.Proxy), "no workload or endpoint is known at the proxy's address"},
			)
		}
	}
	for _, svc := range ServicesWithoutEndpoints(s) {
		note("pilot_eds_no_instances", string(svc.Host), event{Message: "the service has no endpoints"})
	}
	return jsonAnswer(q, out)
}

// IsOrphan reports whether the snapshot has neither a workload nor an endpoint at any of the
// proxy's addresses. It returns true for a proxy without addresses.
func IsOrphan(s *snapshot.Snapshot, p *mesh.Proxy) bool {
	return !slices.ContainsFunc(p.Addresses, func(a netip.Addr) bool { return s.Address(a) != nil })
}

// ServicesWithoutEndpoints returns the services with static resolution that have no endpoints, not
// even unhealthy ones, in the order of Services.
func ServicesWithoutEndpoints(s *snapshot.Snapshot) []*mesh.Service {
	var list []*mesh.Service
	for _, svc := range s.Services() {
		if svc.Resolution == mesh.Static && len(s.Endpoints(svc.ServiceKey).Endpoints) == 0 {
			list = append(list, svc)
		}
	}
	return list
}
