package push

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// elsewhere is what is known of proxies that other control planes serve: replicas of this one, or those of other clusters. They go
// through the steps of a change by themselves, a little earlier or later; what they have reached is not known here.
type elsewhere struct {
	// some are there, and may be called or call.
	some bool
	// called says that some of them are to be called in another way.
	called bool
}

// others looks for workloads that take mutual TLS and are not connected here, where a change may say how they are to be called.
// Pusher.mu is held.
func (p *Pusher) others(old *snapshot.Snapshot, d snapshot.Delta) elsewhere {
	if old == nil || !d.All && !touchesPeers(d) {
		return elsewhere{}
	}
	type change struct{ was, is snapshot.Peers }
	alike := map[change]bool{}
	var out elsewhere
	for ip, w := range p.snapshot.Workloads() {
		if !w.TLS || len(p.addresses[ip]) > 0 {
			continue
		}
		out.some = true
		c := change{old.Peers(w.Namespace, w.Labels), p.snapshot.Peers(w.Namespace, w.Labels)}
		same, known := alike[c]
		if !known {
			same = old.PeerModes(c.was).CalledAlike(p.snapshot.PeerModes(c.is))
			alike[c] = same
		}
		if !same {
			out.called = true
			return out
		}
	}
	return out
}

// wait has the servers that take more than they are to do so for the callers of others, too, if these are being told how to call them:
// of this change, or of one before it. Pusher.mu is held.
func (p *Pusher) wait(others elsewhere) {
	now := p.clock.Now()
	if p.gate.calls && others.some {
		p.unsettled = now.Add(gateLimit + moveLimit)
	}
	if len(p.easing.servers) > 0 && others.some && now.Before(p.unsettled) {
		p.easing.elsewhere = true
	}
}

func touchesPeers(d snapshot.Delta) bool {
	for k := range d.Configs {
		if k.Kind == api.PeerAuthentication {
			return true
		}
	}
	return false
}
