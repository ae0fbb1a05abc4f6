package rollout

import (
	"time"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// A change that needs two sides goes to the servers first. While proxies have not acknowledged a
// change of what they serve, all proxies keep the outbound configuration that they have. Endpoints
// pass, with two exceptions: changes of how servers are to be called (mtls_transition.go), and
// endpoints of clusters that the barrier holds and that are removed.

const (
	// barrierTimeout bounds how long clients are held back for servers that do not answer.
	barrierTimeout = time.Second
	// applyDelay is the time that servers have to apply what they acknowledged before they are
	// called in another way: Envoy acknowledges a listener before it is warm.
	applyDelay = 250 * time.Millisecond
)

// holdLevel is what the server-first barrier holds back.
type holdLevel int

const (
	holdNothing holdLevel = iota
	// holdConfiguration holds back outbound clusters, listeners, routes and extensions.
	holdConfiguration
	// holdEndpoints holds back endpoints too, because they say how servers are to be called.
	holdEndpoints
)

// serverFirstBarrier holds back outbound configuration until servers have acknowledged what they
// are to serve.
type serverFirstBarrier struct {
	level holdLevel
	since time.Time
	// othersAffected means that servers connected to other control planes are to be called in
	// another way. Their acknowledgements are not known here, so the barrier stays for
	// barrierTimeout.
	othersAffected bool
	// generating are the producers whose next Product may change what is served.
	generating map[*producer]struct{}
	// servers have not acknowledged yet what they are to serve.
	servers map[*Client]struct{}
	// held is what is served meanwhile, of producers that are held back.
	held map[*producer]*stream.Shelf
	// passing is, of producers of endpoints that are not held back, the Shelf from when the barrier
	// was set.
	passing  map[*producer]*stream.Shelf
	retained map[*producer]retained
}

// retained is a Shelf of endpoints in which those of held clusters are as they were, and what it
// was made of.
type retained struct{ clusters, endpoints, shelf *stream.Shelf }

// holds reports whether a level holds back the resources of a generator.
func (l holdLevel) holds(g *view.Generator) bool {
	switch g.TypeURL {
	case api.ClusterType, api.ListenerType, api.ExtensionType, api.RouteType:
		return l >= holdConfiguration && !g.Inbound
	case api.EndpointType:
		return l >= holdEndpoints
	default:
		return false
	}
}

// hold sets the barrier or raises its level. Every producer of outbound configuration is served
// from now on with what it has at this moment. It does nothing if the barrier already holds as
// much.
func (b *serverFirstBarrier) hold(level holdLevel, now time.Time, producers map[producerKey]*producer) {
	if level <= b.level {
		return
	}
	if b.level == holdNothing {
		*b = serverFirstBarrier{
			since: now, generating: map[*producer]struct{}{}, servers: map[*Client]struct{}{},
			held: map[*producer]*stream.Shelf{}, passing: map[*producer]*stream.Shelf{}, retained: map[*producer]retained{},
		}
	}
	b.level = level
	for _, pr := range producers {
		switch {
		case pr.shelf == nil || b.held[pr] != nil:
		case level.holds(pr.gen):
			b.held[pr] = pr.shelf
		case pr.gen.TypeURL == api.EndpointType && b.passing[pr] == nil:
			b.passing[pr] = pr.shelf
		}
	}
}

// awaitServer keeps the barrier until the client has acknowledged what it serves. The barrier must
// be set.
func (b *serverFirstBarrier) awaitServer(c *Client) { b.servers[c] = struct{}{} }

// awaitGenerator keeps the barrier until the producer has its next Product. The barrier must be
// set.
func (b *serverFirstBarrier) awaitGenerator(pr *producer) { b.generating[pr] = struct{}{} }

// awaitServersOf awaits all clients of a producer whose Product has changed, if the barrier awaited
// the Product.
func (b *serverFirstBarrier) awaitServersOf(pr *producer) {
	if _, awaited := b.generating[pr]; !awaited {
		return
	}
	for cl := range pr.classes {
		for c := range cl.clients {
			b.awaitServer(c)
		}
	}
}

// acknowledge records that a client has acknowledged all of its class's World.
func (b *serverFirstBarrier) acknowledge(c *Client) {
	if _, awaited := b.servers[c]; awaited && c.class.hasNewestInbound() {
		delete(b.servers, c)
	}
}

// removeClient stops waiting for a client.
func (b *serverFirstBarrier) removeClient(c *Client) { delete(b.servers, c) }

// removeProducer forgets a producer that is not needed any more.
func (b *serverFirstBarrier) removeProducer(pr *producer) {
	delete(b.generating, pr)
	delete(b.held, pr)
	delete(b.passing, pr)
	delete(b.retained, pr)
}

// finishGenerating records that a producer has nothing more to generate.
func (b *serverFirstBarrier) finishGenerating(pr *producer) { delete(b.generating, pr) }

// isSet reports whether the barrier holds anything back.
func (b *serverFirstBarrier) isSet() bool { return b.level != holdNothing }

// awaited is the number of producers and servers that the barrier waits for.
func (b *serverFirstBarrier) awaited() int { return len(b.generating) + len(b.servers) }

// releaseAt returns when the barrier is released if nothing more is acknowledged.
func (b *serverFirstBarrier) releaseAt() time.Time {
	switch {
	case b.awaited() > 0 || b.othersAffected:
		return b.since.Add(barrierTimeout)
	case b.level == holdEndpoints:
		return b.since.Add(applyDelay)
	default:
		return b.since
	}
}

// shelf returns the Shelf of a producer that is served now. ready is false if the producer is not
// done.
func (b *serverFirstBarrier) shelf(pr *producer) (shelf *stream.Shelf, ready bool) {
	if held := b.held[pr]; held != nil {
		return held, true
	}
	return pr.shelf, !pr.busy && !pr.failed && pr.shelf != nil
}

// retainEndpoints keeps the endpoints of clusters that are held back and will be removed. The
// newest configuration has no such cluster, so its endpoints come out empty; but routes still refer
// to it, and their requests would fail. While the clusters are still being generated, it is not
// known which of them will be removed: until then all endpoints stay as they are, and it reports
// false for a new class, which has none yet. shelves are in the order of the class's producers and
// are changed in place.
func (b *serverFirstBarrier) retainEndpoints(cl *class, shelves []*stream.Shelf) (ready bool) {
	for _, clusters := range cl.producers {
		held := b.held[clusters]
		if clusters.gen.TypeURL != api.ClusterType || held == nil {
			continue
		}
		for i, endpoints := range cl.producers {
			switch {
			case endpoints.gen.TypeURL != api.EndpointType || b.held[endpoints] != nil || b.passing[endpoints] == nil:
			case clusters.busy && cl.shelves == nil:
				return false
			case clusters.busy:
				shelves[i] = cl.shelves[i]
			case held != clusters.shelf:
				shelves[i] = b.retain(clusters, endpoints)
			}
		}
	}
	return true
}

// retain returns the Shelf of a producer of endpoints with those of removed clusters as they were
// when the barrier was set. It is made once for all classes that share both producers.
func (b *serverFirstBarrier) retain(clusters, endpoints *producer) *stream.Shelf {
	if done := b.retained[endpoints]; done.clusters == clusters.shelf && done.endpoints == endpoints.shelf {
		return done.shelf
	}
	var before []*resource.Resource
	held := b.held[clusters].Set()
	for _, name := range resource.Compare(held, clusters.shelf.Set()).Removed {
		if r := b.passing[endpoints].Set().Get(endpointsOf(held.Get(name))); r != nil {
			before = append(before, r)
		}
	}
	shelf := endpoints.shelf
	if set := shelf.Set().With(before, nil); set != shelf.Set() {
		shelf = stream.NewNamedShelf(set, shelf.Asked())
	}
	b.retained[endpoints] = retained{clusters.shelf, endpoints.shelf, shelf}
	return shelf
}
