package push

import (
	"time"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// A change of how servers are to be called (PeerAuthentication) has three steps: servers take what was before and what is to come
// (view.Key.Easing), and acknowledge that; callers are told; and when those have acknowledged, or after moveLimit, servers take only
// what is to come. Between them lie pauses: what proxies acknowledge reaches their threads a little later.
//
// Other control planes, which know nothing of these steps of ours, go through theirs at about the same time. Where some of the servers
// or callers are theirs, and calls change, each step takes as long as it may: one of them may be late by gateLimit.
//
// What one control plane has not seen change it does not ease: one that starts finds what is, and serves that.

const (
	// moveLimit is how long servers take everything for callers that do not answer.
	moveLimit = 3 * time.Second
	// movePause is how long they do at least, if they are to be called in another way.
	movePause = 500 * time.Millisecond
)

// easing is servers that take more than they are to. Pusher.mu guards it.
type easing struct {
	// servers are all of them.
	servers map[*Client]struct{}
	// calls says that some of them are to be called in another way, elsewhere that there may be callers that other control planes
	// tell.
	calls, elsewhere bool
	// told says that callers have been told, since when; behind are those that have not acknowledged it yet.
	told   bool
	since  time.Time
	behind map[*Client]struct{}
}

// eased gives the Key of a client as it is to be now: if the change from the old snapshot alters what the client takes of its peers, it
// takes both meanwhile. Pusher.mu is held.
func (p *Pusher) eased(c *Client, old *snapshot.Snapshot, k view.Key) view.Key {
	if old == nil || c.class == nil || k.Server == (mesh.Credentials{}) || c.class.key.Server != k.Server {
		delete(p.easing.servers, c)
		return k
	}
	now := c.class.key
	was, is := now.PeerModes(old), k.PeerModes(p.snapshot)
	if now.Easing != "" && old.PeerModes(now.Peers).Same(is) { // it is on its way there already
		k.Easing = now.Easing
		return k
	}
	if was.Same(is) {
		delete(p.easing.servers, c)
		return k
	}
	alike := was.CalledAlike(is)
	p.shut(!alike)
	p.hasten()
	p.gate.servers[c] = struct{}{}
	between := was.Between(is)
	if between.Same(is) {
		delete(p.easing.servers, c)
		return k
	}
	if p.easing.servers == nil {
		p.easing.servers = map[*Client]struct{}{}
	}
	p.easing.servers[c] = struct{}{}
	p.easing.calls = p.easing.calls || !alike
	p.easing.told = false // of this
	k.Easing = between.Easing()
	return k
}

// tighten has servers take only what they are to, when their callers know. Pusher.mu is held.
func (p *Pusher) tighten(now time.Time) {
	if len(p.easing.servers) == 0 {
		p.easing = easing{}
		return
	}
	if p.gate.closed || p.turn.pending > 0 {
		return // callers are still to be told
	}
	if !p.easing.told {
		p.easing.told, p.easing.since, p.easing.behind = true, now, p.behind()
	}
	age := now.Sub(p.easing.since)
	if (len(p.easing.behind) > 0 || p.easing.elsewhere) && age < moveLimit || p.easing.calls && age < movePause {
		return
	}
	if n := len(p.easing.behind); n > 0 {
		p.log.Warn("servers go on before their callers, which have not acknowledged how to call them", "callers", n)
	}
	servers := p.easing.servers
	p.easing = easing{}
	for c := range servers {
		if c.class != nil {
			k := c.key()
			k.Easing = ""
			p.place(c, k)
		}
	}
}

// behind gives the clients that have not acknowledged all that they are to have. Pusher.mu is held.
func (p *Pusher) behind() map[*Client]struct{} {
	list := map[*Client]struct{}{}
	for c := range p.clients {
		if c.class != nil && !c.abreast() {
			list[c] = struct{}{}
		}
	}
	return list
}

// abreast says whether a client has acknowledged the newest World of its class. Pusher.mu is held.
func (c *Client) abreast() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.world == c.class.world && c.mailbox.Load() == nil && c.machine.Converged()
}

// soon is how often it is looked whether a pause is over.
const soon = 50 * time.Millisecond

// patience is how long the next look at the time may wait. Pusher.mu is held.
func (p *Pusher) patience() time.Duration {
	if p.gate.closed && p.gate.calls || len(p.easing.servers) > 0 {
		return soon
	}
	if next := p.quarantineDue; !next.IsZero() {
		return min(max(next.Sub(p.clock.Now()), soon), tick)
	}
	return tick
}

// hasten has the time looked at sooner.
func (p *Pusher) hasten() {
	select {
	case p.hurry <- struct{}{}:
	default:
	}
}
