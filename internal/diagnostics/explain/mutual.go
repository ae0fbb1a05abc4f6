package explain

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// onlyMutual returns a Closed ending, and adds a step, if the connection is closed because the
// workload requires mutual TLS. This is an inbound plain text connection that a PeerAuthentication
// routes to the black hole cluster. For all other connections, and at the proxy's own port, it
// returns nil.
func (w *walk) onlyMutual(cluster string) (end []Ending) {
	if w.call.Direction != Inbound || cluster != mesh.BlackHoleCluster || w.secured ||
		w.own { // the own port is always closed
		return nil
	}
	modes := objectsOf(
		slices.DeleteFunc(slices.Clone(w.from), func(k config.Key) bool { return k.Kind != api.PeerAuthentication }),
	)
	if len(modes) == 0 {
		return nil
	}
	w.addStep(Step{
		Stage:    StageAccess,
		Resource: cluster,
		By:       modes,
		Decided:  "the workload accepts only mutual TLS at this port (STRICT), and the call does not use it: the connection is closed",
	})
	return singleEnding(Closed, "mutual TLS is required (STRICT)")
}
