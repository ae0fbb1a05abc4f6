package debug

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/diagnostics/precedence"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// maxPrecedenceNotes limits the number of notes about other objects.
const maxPrecedenceNotes = 8

// precedenceNotes returns a note for each object that takes precedence over an object of the path
// or is overridden by it. HTTPRoutes and GRPCRoutes that are combined are noted, too. It also
// considers the Sidecar and DestinationRule of the proxy. Relations about other hosts, and reverses
// of other notes, are left out. It returns the first maxPrecedenceNotes.
func (e *explanation) precedenceNotes(call explain.Call, path *explain.Path) []string {
	host := mesh.Hostname(e.question.Host())
	if svc := e.serviceOf(string(host)); svc != nil {
		host = svc.Host
	}
	var notes []string
	seen := map[[2]config.Key]bool{}
	labels := view.WorkloadLabels(e.view.Snapshot, e.proxy)
	for _, k := range e.objectsOf(call, path) {
		for _, r := range precedence.Find(e.view, labels, k) {
			if seen[[2]config.Key{r.Object, k}] { // it is the reverse of another note
				continue
			}
			if r.Effect == precedence.Combined && k.Kind != api.HTTPRoute && k.Kind != api.GRPCRoute {
				continue
			}
			if r.Host != "" && r.Host != host && !r.Host.Covers(host) {
				continue
			}
			seen[[2]config.Key{k, r.Object}] = true
			notes = append(notes, k.String()+" "+r.String())
		}
	}
	return notes[:min(len(notes), maxPrecedenceNotes)]
}

// objectsOf returns the objects of the path in its order, without duplicates. Unless the call is
// inbound, the first object of the DestinationRule for the host, and the Sidecar of the proxy,
// follow if they exist.
func (e *explanation) objectsOf(call explain.Call, path *explain.Path) []config.Key {
	var keys []config.Key
	add := func(k config.Key) {
		if k != (config.Key{}) && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	for _, step := range path.Steps {
		for _, o := range step.By {
			add(o.Key)
		}
	}
	if call.Direction == explain.Inbound {
		return keys
	}
	if svc := e.serviceOf(e.question.Host()); svc != nil {
		if rule := e.view.DestinationRule(svc.Host); rule != nil {
			add(rule.From[0])
		}
	}
	add(e.view.Key.Sidecar)
	return keys
}
