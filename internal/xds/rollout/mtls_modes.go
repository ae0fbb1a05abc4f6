package rollout

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// updateTransition starts, continues or ends the transition of the server c between mutual TLS
// modes. It returns the Key of c: k with TransitionModes during a transition, otherwise k.
//
// It starts a transition if the change from the old snapshot alters the modes of c, which then
// accepts both. It also sets the server-first barrier, which holds back clients until c has
// acknowledged. Endpoints are held back too if clients must call c in another way. If the new modes
// accept everything that the old ones did, it sets only the barrier and ends a transition. A
// transition on its way to the same modes continues.
//
// It also ends the transition if the modes are unchanged, and for a first snapshot (old is nil). It
// does so too if c has no class, no server certificate, or another one than the Key of its class
// has.
func (r *Rollout) updateTransition(c *Client, old *snapshot.Snapshot, k view.Key) view.Key {
	if old == nil || c.class == nil || k.ServerCredentials == (mesh.Credentials{}) ||
		c.class.key.ServerCredentials != k.ServerCredentials {
		r.transition.removeServer(c)
		return k
	}
	present := c.class.key
	was, is := present.PeerModes(old), k.PeerModes(r.snapshot)
	// is on its way there already
	if present.TransitionModes != "" && old.PeerModes(present.PeerAuthentications).Same(is) {
		k.TransitionModes = present.TransitionModes
		return k
	}
	if was.Same(is) {
		r.transition.removeServer(c)
		return k
	}
	callsChange := !was.CalledAlike(is)
	level := holdConfiguration
	if callsChange {
		level = holdEndpoints
	}
	r.holdClients(level)
	r.barrier.awaitServer(c)
	between := was.Between(is)
	if between.Same(is) {
		r.transition.removeServer(c)
		return k
	}
	r.transition.acceptBoth(c, callsChange)
	k.TransitionModes = between.Text()
	return k
}

// otherProxies describes proxies that are connected to other control planes: replicas of this one,
// or control planes of other clusters.
type otherProxies struct {
	// exist means that there are some that may call or be called.
	exist bool
	// callsChange is set if clients must call some of them in another way.
	callsChange bool
}

// findOtherProxies reports whether workloads that accept mutual TLS are not connected here (exist),
// and whether d changes how one of them must be called (callsChange). It stops at the first one
// that must be called differently. It finds none without an old snapshot, or if d neither contains
// a PeerAuthentication nor has All.
func (r *Rollout) findOtherProxies(old *snapshot.Snapshot, d snapshot.Delta) (found otherProxies) {
	if old == nil || !d.All && !changesPeerAuthentication(d) {
		return otherProxies{}
	}
	type change struct{ was, is snapshot.Peers }
	calledAlike := map[change]bool{}
	for ip, w := range r.snapshot.Workloads() {
		if !w.TLS || len(r.addresses[ip]) > 0 {
			continue
		}
		found.exist = true
		c := change{old.Peers(w.Namespace, w.Labels), r.snapshot.Peers(w.Namespace, w.Labels)}
		alike, known := calledAlike[c]
		if !known {
			alike = old.PeerModes(c.was).CalledAlike(r.snapshot.PeerModes(c.is))
			calledAlike[c] = alike
		}
		if !alike {
			found.callsChange = true
			return found
		}
	}
	return found
}

// changesPeerAuthentication reports whether a Delta contains a PeerAuthentication. It ignores
// d.All.
func changesPeerAuthentication(d snapshot.Delta) bool {
	for k := range d.Configs {
		if k.Kind == api.PeerAuthentication {
			return true
		}
	}
	return false
}
