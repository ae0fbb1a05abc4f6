package consul

import (
	"time"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// appendSynced appends Synced once: as soon as the servers, the list of services and each listed
// service have answered, unless endWait has sent it. It sets r.synced then in any case. A service
// that is no longer watched does not delay it.
func (r *run) appendSynced(batch mesh.Batch) mesh.Batch {
	if r.synced || r.listed == nil || !r.identified {
		return batch
	}
	for name := range r.listed {
		if w := r.services[name]; w != nil && !w.answered {
			return batch
		}
	}
	r.synced = true
	if r.syncedSent {
		return batch
	}
	r.syncedSent = true
	return append(batch, mesh.Event{Op: mesh.Synced, Source: r.Name()})
}

// startTimeout returns a channel that receives after Options.StartTimeout. It returns nil for the
// datacenter of the settings, and without such a limit.
func (r *run) startTimeout() <-chan time.Time {
	if r.part == (part{}) || r.options.StartTimeout <= 0 {
		return nil
	}
	return time.After(r.options.StartTimeout)
}

// endWait returns Synced and logs a Warning if not everything has answered. A datacenter or a peer
// that cannot be read then delays the start of the control plane no longer. It returns nil if
// Synced was sent. The services are added when they can be read.
func (r *run) endWait() mesh.Batch {
	if r.syncedSent {
		return nil
	}
	r.syncedSent = true
	r.options.Logger.Warn("not all services of another datacenter or peer of Consul could be read in time; starting without them",
		"source", r.Name(), "timeout", r.options.StartTimeout, "error", r.failures[""])
	return mesh.Batch{{Op: mesh.Synced, Source: r.Name()}}
}
