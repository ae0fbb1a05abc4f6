package debug

import (
	"fmt"
	"slices"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// readNames are the resources that were read by name during an explanation.
type readNames map[*resource.Resource]bool

// deliveryNotes returns notes on resources of the path, or read by it, that the proxy has not
// acknowledged, or whose newer version is in quarantine for the proxy. In both cases its Envoy may
// act differently from the path. It returns nil if the proxy has disconnected.
func (e *explanation) deliveryNotes(c push.Connection, path *explain.Path, read readNames) []string {
	var list []*resource.Resource
	for _, w := range c.Types {
		for _, r := range w.Resources() {
			if read[r] || isOfPath(path, r) {
				list = append(list, r)
			}
		}
	}
	states := e.Proxies.Deliveries(c.ID, list)
	if len(states) == 0 { // the proxy has disconnected
		return nil
	}
	quarantine := e.Proxies.Quarantine()
	var notes []string
	for i, r := range list {
		name := api.ShortType(r.TypeURL) + " " + r.Name
		switch states[i] {
		case stream.Unsent:
			notes = append(notes, name+": this version has not been sent to the proxy yet, which uses the one before")
		case stream.Unanswered:
			notes = append(notes, name+": this version was sent to the proxy, which has not acknowledged it yet")
		case stream.Rejected:
			notes = append(notes, name+": the proxy rejected this version and uses the one before")
		}
		for _, q := range quarantine {
			if q.TypeURL == r.TypeURL && q.Name == r.Name && slices.Contains(q.Affected, c.ID) {
				notes = append(notes, fmt.Sprintf(
					"%s: the newest version is in quarantine because proxies rejected it: %s", name, q.Message))
			}
		}
	}
	return notes
}

// isOfPath reports whether a path uses a listener or a cluster. It returns false for other types.
// Clusters of all endings count, listeners only as steps.
func isOfPath(path *explain.Path, r *resource.Resource) bool {
	switch r.TypeURL {
	case api.ListenerType:
		return slices.ContainsFunc(path.Steps, func(s explain.Step) bool {
			return s.Stage == explain.StageListener && s.Resource == r.Name
		})
	case api.ClusterType:
		return slices.ContainsFunc(path.Endings, func(e explain.Ending) bool { return e.Cluster == r.Name })
	default:
		return false
	}
}
