package rollout

import (
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// NeedsProgress reports whether the rollout needs an Acknowledged event whenever a client has
// acknowledged everything, because the barrier is set or a mutual TLS transition is under way.
func (r *Rollout) NeedsProgress() bool { return r.barrier.isSet() || len(r.transition.servers) > 0 }

// Served returns the version of the newest snapshot that all classes were updated to, 0 before the
// first. A later snapshot that does not differ for proxies counts, unless a turn is still due or
// active.
func (r *Rollout) Served() uint64 { return r.served }

// NeedsAccepted reports whether the rollout needs Accepted events for a type, because it has
// candidates of the type or observes refusals.
func (r *Rollout) NeedsAccepted(typeURL string) bool {
	return r.watched[typeURL] > 0 || r.ObservesRefusals()
}

// ObservesRefusals reports whether resources were refused that no voter has acknowledged. Then an
// Accepted is needed of every voter; otherwise one for each version of a resource and class is
// enough.
func (r *Rollout) ObservesRefusals() bool { return len(r.observing) > 0 || len(r.suspensions) > 0 }

// Counts are the numbers of connected clients, of classes with clients, and of producers that these
// classes need.
type Counts struct{ Clients, Classes, Producers int }

// Counts returns the present numbers of clients, of classes with clients, and of producers with
// clients.
func (r *Rollout) Counts() Counts {
	n := Counts{Clients: len(r.clients), Classes: r.countClasses()}
	for _, pr := range r.producers {
		if pr.live > 0 {
			n.Producers++
		}
	}
	return n
}

// Members returns the clients and resources of each class that has clients, in no particular order.
func (r *Rollout) Members() []Members {
	list := make([]Members, 0, len(r.classes))
	for _, cl := range r.classes {
		if len(cl.clients) > 0 {
			list = append(list, cl.members())
		}
	}
	return list
}

// ViewKeys returns the Key of each class that has clients, in no particular order.
func (r *Rollout) ViewKeys() []view.Key {
	list := make([]view.Key, 0, len(r.classes))
	for _, cl := range r.classes {
		if len(cl.clients) > 0 {
			list = append(list, cl.key)
		}
	}
	return list
}

// Groups returns each ResourceGroup that a class is served, with the number of clients that are
// served it. The number is 0 for ResourceGroups of classes without clients.
func (r *Rollout) Groups() map[*stream.ResourceGroup]int {
	clients := map[*stream.ResourceGroup]int{}
	for _, cl := range r.classes {
		for _, s := range cl.groups {
			clients[s] += len(cl.clients)
		}
	}
	return clients
}
