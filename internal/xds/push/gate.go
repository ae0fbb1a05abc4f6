package push

import (
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// A change that needs two sides goes to the servers first: while proxies are being told of a change of what they serve, all
// proxies go on with the outbound configuration that they have, until the servers have acknowledged, or for gateLimit.
// Endpoints pass, unless they say that servers are to be called in another way (easing.go), or belong to clusters that are held
// and will be removed (heldClusters).

const (
	// gateLimit is how long clients are held back for servers that do not answer.
	gateLimit = time.Second
	// servePause is how long servers are given to put to use what they have acknowledged, where they are to be called in another
	// way: Envoy answers for a listener before all of it is warm.
	servePause = 250 * time.Millisecond
)

// gate holds back outbound configuration. Pusher.mu guards it.
type gate struct {
	closed bool
	since  time.Time
	// calls says that servers will be called in another way: endpoints wait too. elsewhere says that some of these servers are
	// served by other control planes.
	calls, elsewhere bool
	// making are the producers that may come out with a change of what is served.
	making map[*producer]struct{}
	// servers have not acknowledged yet what they are to serve.
	servers map[*Client]struct{}
}

// waits says that resources of the generator are held back at the gate.
func (g *Generator) waits(calls bool) bool {
	switch g.TypeURL {
	case api.ClusterType, api.ListenerType, api.ExtensionType, api.RouteType:
		return !g.Inbound
	case api.EndpointType:
		return calls
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

// shut closes the gate, with every producer of outbound configuration showing what it has now; if servers are to be called in
// another way, of endpoints too. Pusher.mu is held.
func (p *Pusher) shut(calls bool) {
	if p.gate.closed && (p.gate.calls || !calls) {
		return
	}
	if !p.gate.closed {
		p.gate = gate{closed: true, since: p.clock.Now(), making: map[*producer]struct{}{}, servers: map[*Client]struct{}{}}
	}
	p.gate.calls = p.gate.calls || calls
	p.count.gated.Store(true)
	for _, pr := range p.producers {
		switch {
		case pr.held != nil:
		case pr.gen.waits(p.gate.calls):
			pr.held = pr.shelf
		case pr.gen.TypeURL == api.EndpointType && pr.atGate == nil:
			pr.atGate = pr.shelf
		}
	}
	p.hasten()
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
	if c.class == nil || c.class.world != w {
		return
	}
	delete(p.easing.behind, c)
	if _, waited := p.gate.servers[c]; waited && c.showsServed() {
		delete(p.gate.servers, c)
	}
	p.relax(p.clock.Now())
}

// showsServed says whether the newest World of a client's class has the newest of what is served. Pusher.mu is held.
func (c *Client) showsServed() bool {
	for i, pr := range c.class.producers {
		if pr.gen.Inbound && (pr.busy || c.class.shelves[i] != pr.shelf) {
			return false // the change is still to come
		}
	}
	return true
}

// relax opens the gate if nobody is waited for any more, or for too long, and then goes on with what was eased. Pusher.mu is held.
func (p *Pusher) relax(now time.Time) {
	p.open(now)
	p.tighten(now)
	p.count.gated.Store(p.gate.closed || len(p.easing.servers) > 0)
}

func (p *Pusher) open(now time.Time) {
	waiting, age := len(p.gate.making)+len(p.gate.servers), now.Sub(p.gate.since)
	if !p.gate.closed || waiting > 0 && age < gateLimit || p.gate.calls && age < servePause || p.gate.elsewhere && age < gateLimit {
		return
	}
	if waiting > 0 {
		p.log.Warn("clients go on before their servers, which have not acknowledged a change of what they serve", "servers", len(p.gate.servers))
	}
	p.gate = gate{}
	for _, pr := range p.producers {
		pr.held, pr.atGate, pr.retained = nil, nil, retained{}
	}
	for _, cl := range p.classes {
		p.settle(cl)
	}
}

// retained is a Shelf of endpoints in which those of held clusters are as they were, and what it was made of.
type retained struct{ clusters, endpoints, shelf *stream.Shelf }

// retainEndpoints keeps the endpoints of clusters that the gate still holds and that are to be removed when it opens. The newest
// configuration has no such cluster, so its endpoints come out empty; but routes still lead to it, and their requests would fail.
// shelves are in the order of the class's producers, and are changed in place. Pusher.mu is held.
func (cl *class) retainEndpoints(shelves []*stream.Shelf) {
	for _, clusters := range cl.producers {
		if clusters.gen.TypeURL != api.ClusterType || clusters.held == nil || clusters.held == clusters.shelf {
			continue
		}
		for i, endpoints := range cl.producers {
			if endpoints.gen.TypeURL == api.EndpointType && endpoints.held == nil && endpoints.atGate != nil {
				shelves[i] = endpoints.retain(clusters)
			}
		}
	}
}

// retain returns the Shelf of an endpoint producer with the endpoints of the removed clusters as they were when the gate closed. It
// is made once for all classes that share both producers.
func (pr *producer) retain(clusters *producer) *stream.Shelf {
	if pr.retained.clusters == clusters.shelf && pr.retained.endpoints == pr.shelf {
		return pr.retained.shelf
	}
	var before []*resource.Resource
	held := clusters.held.Set()
	for _, name := range resource.Compare(held, clusters.shelf.Set()).Removed {
		if r := pr.atGate.Set().Get(endpointsOf(held.Get(name))); r != nil {
			before = append(before, r)
		}
	}
	shelf := pr.shelf
	if set := shelf.Set().With(before, nil); set != shelf.Set() {
		shelf = stream.NewNamedShelf(set, shelf.Asked())
	}
	pr.retained = retained{clusters.shelf, pr.shelf, shelf}
	return shelf
}
