package push

import (
	"time"

	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// A change that needs two sides goes to the servers first: while proxies are being told of a change of what they serve, all
// proxies go on with the outbound configuration that they have, until the servers have acknowledged, or for gateLimit.
// Endpoints pass.

// gateLimit is how long clients are held back for servers that do not answer.
const gateLimit = time.Second

// gate holds back outbound configuration. Pusher.mu guards it.
type gate struct {
	closed bool
	since  time.Time
	// making are the producers that may come out with a change of what is served.
	making map[*producer]struct{}
	// servers have not acknowledged yet what they are to serve.
	servers map[*Client]struct{}
}

// waits says that resources of the generator are held back at the gate.
func (g *Generator) waits() bool {
	switch g.TypeURL {
	case api.ClusterType, api.ListenerType, api.ExtensionType, api.RouteType:
		return !g.Inbound
	default:
		return false
	}
}

// shown gives the Shelf that goes into Worlds now, and whether it is ready to.
func (pr *producer) shown() (shelf *stream.Shelf, ready bool) {
	if pr.held != nil {
		return pr.held, true
	}
	return pr.shelf, !pr.busy && !pr.failed && pr.shelf != nil
}

// shut closes the gate, with every producer of outbound configuration showing what it has now. Pusher.mu is held.
func (p *Pusher) shut() {
	if p.gate.closed {
		return
	}
	p.gate = gate{closed: true, since: p.clock.Now(), making: map[*producer]struct{}{}, servers: map[*Client]struct{}{}}
	p.count.gated.Store(true)
	for _, pr := range p.producers {
		if pr.gen.waits() {
			pr.held = pr.shelf
		}
	}
}

// serves notes that the clients of a producer's classes are to be told of a change of what they serve. Pusher.mu is held.
func (p *Pusher) serves(pr *producer) {
	for cl := range pr.classes {
		for c := range cl.clients {
			p.gate.servers[c] = struct{}{}
		}
	}
}

// served notes that a client has acknowledged all of a World. Pusher.mu is held.
func (p *Pusher) served(c *Client, w *stream.World) {
	if _, waited := p.gate.servers[c]; !waited || c.class == nil || c.class.world != w {
		return
	}
	for i, pr := range c.class.producers {
		if pr.gen.Inbound && (pr.busy || c.class.shelves[i] != pr.shelf) {
			return // the change is still to come
		}
	}
	delete(p.gate.servers, c)
	p.relax(p.clock.Now())
}

// relax opens the gate if nobody is waited for any more, or for too long. Pusher.mu is held.
func (p *Pusher) relax(now time.Time) {
	waiting := len(p.gate.making) + len(p.gate.servers)
	if !p.gate.closed || waiting > 0 && now.Sub(p.gate.since) < gateLimit {
		return
	}
	if waiting > 0 {
		p.log.Warn("clients go on before their servers, which have not acknowledged a change of what they serve", "servers", len(p.gate.servers))
	}
	p.gate = gate{}
	p.count.gated.Store(false)
	for _, pr := range p.producers {
		pr.held = nil
	}
	for _, cl := range p.classes {
		p.settle(cl)
	}
}
