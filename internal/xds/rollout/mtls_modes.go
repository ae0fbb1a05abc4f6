package rollout

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// updateTransition returns k, with TransitionModes while c must accept its old and its new mutual
// TLS modes. A transition to the same new modes continues. Otherwise, if the modes that c now
// accepts change, it holds clients back until c has acknowledged, also their endpoints if they must
// call c in another way, and starts a transition, or ends it if the new modes accept all that the
// old ones did. It only ends the transition if these modes do not change, old is nil, or c has no
// class or no server certificate equal to the one of its class.
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
