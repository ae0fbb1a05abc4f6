package patch

import (
	"fmt"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Generated is all resources of a View before patching.
type Generated struct {
	Clusters, Listeners []*resource.Resource
	// Route returns one RouteConfiguration.
	Route func(name string) *resource.Resource
}

// Problems returns the patches for a View's proxies that failed or had no effect, sorted: an Error
// for a patch that was refused, a Warning for a patch without a match. g has the unpatched
// resources. Problems that do not depend on resources are left out: Check returns them. Without
// patches it returns nil.
func (p *Pass) Problems(v *view.View, names snapshot.PatchNames, g Generated) []config.Problem {
	if names == (snapshot.PatchNames{}) {
		return nil
	}
	r := report{}
	if s := p.set(v, names.Clusters); s != nil {
		r.expect(s)
		p.patchEach(s, v, g.Clusters, p.patchCluster, r.recordOutcome)
		p.addedClusters(
			s,
			func() []*resource.Resource { return p.Clusters(v, names.Clusters, g.Clusters) },
			r.recordAddition,
		)
	}
	listeners := g.Listeners
	if s := p.set(v, names.Listeners); s != nil {
		r.expect(s)
		listeners = p.patchEach(s, v, g.Listeners, p.patchListener, r.recordOutcome)
		added := p.addedListeners(s, func() []*resource.Resource { return listeners }, r.recordAddition)
		listeners = slices.Concat(listeners, added)
	}
	if s := p.set(v, names.Routes); s != nil {
		r.expect(s)
		for _, name := range routeNames(listeners) {
			if routes := g.Route(name); routes != nil {
				p.patchEach(s, v, []*resource.Resource{routes}, p.patchConfiguration, r.recordOutcome)
			}
		}
	}
	if s := p.set(v, names.Extensions); s != nil {
		r.expect(s)
		s.reportExtensions(r.recordAddition)
	}
	return r.problems(v.Snapshot)
}

// report collects the result of each patch.
type report map[*patch]*tally

// expect adds the patches of s with an empty result, unless they have one.
func (r report) expect(s *set) {
	for _, p := range s.patches {
		if r[p] == nil {
			r[p] = new(tally)
		}
	}
}

// recordOutcome adds the results of the patches of l on the resource what to r. Reasons of failures
// name the resource. r must have an entry for each patch (expect).
func (r report) recordOutcome(what *resource.Resource, o *outcome, l *list) {
	for i, t := range o.tallies {
		if t.reason != "" {
			t.reason = fmt.Sprintf("%s %q: %s", api.ShortType(what.TypeURL), what.Name, t.reason)
		}
		r[l.patches[i]].addTally(t)
	}
}

// recordAddition adds the result of a patch that adds something: an effect if err is nil, otherwise
// a failure. r must have an entry for p (expect).
func (r report) recordAddition(p *patch, err error) {
	t := tally{applied: 1}
	if err != nil {
		t = tally{reason: err.Error()}
	}
	r[p].addTally(t)
}

// problems returns a Problem for each patch with a failure or without an effect, sorted, with the
// object's Origin. A failure is an Error, a missing effect a Warning.
func (r report) problems(s *snapshot.Snapshot) []config.Problem {
	var list []config.Problem
	for p, t := range r {
		found := config.Problem{Code: code.PatchFailed, Key: p.from, Field: p.field(), Severity: config.Error,
			Reason: t.reason}
		switch {
		case t.reason != "":
		case t.applied == 0:
			found.Severity, found.Reason = config.Warning, p.missedReason(t.depth)
		default:
			continue
		}
		if c := s.Config(p.from); c != nil {
			found.Origin = c.Origin
		}
		list = append(list, found)
	}
	slices.SortFunc(list, config.Problem.Compare)
	return list
}

// missedReason returns the Reason for a patch that had no effect and whose match succeeded only as
// far as d.
func (p *patch) missedReason(d depth) string {
	const nothing = "the patch has no effect on some of the selected proxies: "
	switch p.applyTo {
	case networking.EnvoyFilter_CLUSTER:
		return nothing + "no cluster of theirs matches"
	case networking.EnvoyFilter_ROUTE_CONFIGURATION, networking.EnvoyFilter_VIRTUAL_HOST,
		networking.EnvoyFilter_HTTP_ROUTE:
		return nothing + []string{
			noResource:           "none of their route configurations matches, or contains the matched element",
			matchedResource:      "no virtual host matches",
			matchedChain:         "no virtual host matches",
			matchedNetworkFilter: "no virtual host matches",
			matchedVirtualHost:   "no route matches",
		}[d]
	default:
		return nothing + []string{
			noResource:           "none of their listeners matches, or contains the matched element",
			matchedResource:      "no filter chain matches",
			matchedChain:         "no filter matches",
			matchedNetworkFilter: "no HTTP filter matches",
			matchedVirtualHost:   "nothing matches",
		}[d]
	}
}

// routeNames returns the names of the RouteConfigurations that connection managers of the encoded
// listeners reference by RDS, sorted and without duplicates. Listeners that cannot be decoded are
// skipped.
func routeNames(listeners []*resource.Resource) []string {
	var names []string
	for _, r := range listeners {
		l := new(listenerv3.Listener)
		if proto.Unmarshal(r.Body, l) != nil {
			continue
		}
		for _, c := range append(l.GetFilterChains(), l.GetDefaultFilterChain()) {
			for _, f := range c.GetFilters() {
				m := new(hcmv3.HttpConnectionManager)
				if f.GetTypedConfig().MessageName() == connectionManager &&
					f.GetTypedConfig().UnmarshalTo(m) == nil && m.GetRds() != nil {
					names = append(names, m.GetRds().GetRouteConfigName())
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
