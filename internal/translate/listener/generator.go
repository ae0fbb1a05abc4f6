package listener

import (
	"fmt"
	"slices"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
	"github.com/meshpilot/meshpilot/internal/view"
)

// Generator makes the listeners of Views, each distinct one once. It is for use by many goroutines.
type Generator struct {
	built   *memo.Table[input, *resource.Resource]
	commons *memo.Table[*snapshot.Settings, *common]
	plans   plans
}

// input is all that a finished listener depends on.
type input struct {
	spec     string // Spec.String, which says all of it
	settings *snapshot.Settings
}

// NewGenerator makes a Generator that remembers nothing yet.
func NewGenerator() *Generator {
	return &Generator{built: memo.New[input, resource.Resource](), commons: memo.New[*snapshot.Settings, common]()}
}

// All gives the listeners of a View: those that all Views of its class have, and its own. Proxies other than sidecars have
// none yet.
func (g *Generator) All(v *view.View) []*resource.Resource {
	if v.Key.Type != mesh.SidecarProxy {
		return nil
	}
	common, own := g.outbound(v), planOwn(v)
	list := g.resources(own.specs, v.Settings)
	if len(own.places) == 0 {
		return slices.Concat(list, common.resources)
	}
	for i := range common.plan.specs {
		if !own.has(&common.plan.specs[i]) {
			list = append(list, common.resources[i])
		}
	}
	return list
}

// Plan gives the same as plain data.
func (g *Generator) Plan(v *view.View) []Spec {
	if v.Key.Type != mesh.SidecarProxy {
		return nil
	}
	own := planOwn(v)
	list := slices.Clone(own.specs)
	specs := g.outbound(v).plan.specs
	for i := range specs {
		if !own.has(&specs[i]) {
			list = append(list, specs[i])
		}
	}
	return list
}

// Conflicts gives the connections that services of a View's class do not get because others have them.
func (g *Generator) Conflicts(v *view.View) []Conflict {
	if v.Key.Type != mesh.SidecarProxy {
		return nil
	}
	return g.outbound(v).plan.conflicts
}

// Problems gives what of the objects that a View's listeners are made of is not served as it says, sorted, without Origin.
func (g *Generator) Problems(v *view.View) []config.Problem {
	if v.Key.Type != mesh.SidecarProxy {
		return nil
	}
	own, common := planOwn(v), g.outbound(v).plan
	list := slices.Concat(conflictProblems(common.conflicts), common.problems, own.problems)
	for i := range common.specs {
		if s := &common.specs[i]; own.has(s) {
			list = append(list, config.Problem{
				Key: v.Sidecar.Key, Field: "spec.ingress", Severity: config.Warning,
				Reason: fmt.Sprintf("a listener bound to %s leaves no room for the outbound one at the same place: give it an address (bind)", s.Name),
			})
		}
	}
	slices.SortFunc(list, config.Problem.Compare)
	return slices.Compact(list)
}

// Computed is how many listeners were really made since the start, for tests and metrics.
func (g *Generator) Computed() uint64 { return g.built.Computed() }

// Planned is how often outbound listeners were planned since the start.
func (g *Generator) Planned() uint64 { return g.plans.made.Load() }

// resources gives the finished listeners of Specs.
func (g *Generator) resources(specs []Spec, settings *snapshot.Settings) []*resource.Resource {
	list := make([]*resource.Resource, len(specs))
	var text []byte
	for i := range specs {
		s := &specs[i]
		text = s.appendText(text[:0])
		list[i] = g.built.Do(input{string(text), settings}, func(in input) *resource.Resource { return g.encode(s, in.settings) })
	}
	return list
}

func (g *Generator) encode(s *Spec, settings *snapshot.Settings) *resource.Resource {
	c := g.commons.Do(settings, newCommon)
	r, err := resource.Encode(s.Name, api.ListenerType, build(s, c), s.From...)
	if err != nil {
		panic(fmt.Sprintf("listener %q: %v", s.Name, err)) // messages of our own making always encode
	}
	r.Parts = c // the next listener may have it too
	return r
}

// own is the listeners that a View does not share with its class.
type own struct {
	*inboundPlan
	// places are those of inbound listeners that are bound, at which the class may have listeners too.
	places map[place]bool
}

func planOwn(v *view.View) own {
	o := own{inboundPlan: planInbound(v), places: map[place]bool{}}
	for _, s := range o.specs {
		if s.Name == virtualInbound {
			continue // its port is out of bounds for all others
		}
		for _, a := range append([]string{s.Address}, s.More...) {
			o.places[place{a, s.Port}] = true
		}
	}
	if v.Settings.Mesh.GetProxyHttpPort() > 0 {
		o.specs = append([]Spec{planHTTPProxy(v)}, o.specs...)
	}
	if v.Key.Interception != noInterception {
		o.specs = append([]Spec{planVirtualOutbound(v)}, o.specs...)
	}
	return o
}

// has says whether one of the own listeners has a place of another.
func (o own) has(s *Spec) bool {
	return len(o.places) > 0 && (o.places[place{s.Address, s.Port}] ||
		slices.ContainsFunc(s.More, func(a string) bool { return o.places[place{a, s.Port}] }))
}
