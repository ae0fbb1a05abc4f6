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
// pass, with two exceptions: changes of how clients must call servers (mtls_transition.go), and
// endpoints of clusters that the barrier holds and that are removed.

const (
	// barrierTimeout bounds how long clients are held back for servers that do not answer.
	barrierTimeout = time.Second
	// applyDelay is the time that servers have to apply the acknowledged configuration before
	// clients call them in another way: Envoy acknowledges a listener before it is warm.
	applyDelay = 250 * time.Millisecond
)

// holdLevel selects the types that the server-first barrier holds back.
type holdLevel int

const (
	holdNothing holdLevel = iota
	// holdConfiguration holds back outbound clusters, listeners, routes and extensions.
	holdConfiguration
	// holdEndpoints holds back endpoints too, because they determine how clients call servers.
	holdEndpoints
)

// serverFirstBarrier holds back outbound configuration until servers have acknowledged their new
// inbound configuration.
type serverFirstBarrier struct {
	level holdLevel
	since time.Time
	// othersAffected is set if clients must call servers of other control planes in another way.
	// Their acknowledgements are not known here, so the barrier stays for barrierTimeout.
	othersAffected bool
	// generating are the producers whose next Product may change inbound configuration.
	generating map[*producer]struct{}
	// servers have not acknowledged their inbound configuration yet.
	servers map[*Client]struct{}
	// held maps each producer that is held back to the ResourceGroup that is served until the
	// release.
	held map[*producer]*stream.ResourceGroup
	// passing is, of producers of endpoints that are not held back, the ResourceGroup from when the
	// barrier was set.
	passing  map[*producer]*stream.ResourceGroup
	retained map[*producer]retained
}

// retained is a ResourceGroup in which the endpoints of held clusters are unchanged, with its
// inputs.
type retained struct{ clusters, endpoints, group *stream.ResourceGroup }

// holdsBack reports whether level l holds back the resources of a generator. Outbound clusters,
// listeners, extensions and routes are held from holdConfiguration on, endpoints only at
// holdEndpoints. Inbound configuration and other types are never held.
func (l holdLevel) holdsBack(g *view.Generator) bool {
	switch g.TypeURL {
	case api.ClusterType, api.ListenerType, api.ExtensionType, api.RouteType:
		return l >= holdConfiguration && !g.Inbound
	case api.EndpointType:
		return l >= holdEndpoints
	default:
		return false
	}
}

// raiseLevel sets the barrier, or raises its level. From now on each producer that the level holds
// back is served with its current ResourceGroup. It does nothing if the barrier is at this level or
// a higher one. An endpoint producer, which is not held back, has its group recorded in passing, if
// that is not set.
func (b *serverFirstBarrier) raiseLevel(level holdLevel, now time.Time, producers map[producerKey]*producer) {
	if level <= b.level {
		return
	}
	if b.level == holdNothing {
		*b = serverFirstBarrier{
			since:      now,
			generating: map[*producer]struct{}{},
			servers:    map[*Client]struct{}{},
			held:       map[*producer]*stream.ResourceGroup{},
			passing:    map[*producer]*stream.ResourceGroup{},
			retained:   map[*producer]retained{},
		}
	}
	b.level = level
	for _, pr := range producers {
		switch {
		case pr.group == nil || b.held[pr] != nil:
		case level.holdsBack(pr.gen):
			b.held[pr] = pr.group
		case pr.gen.TypeURL == api.EndpointType && b.passing[pr] == nil:
			b.passing[pr] = pr.group
		}
	}
}

// awaitServer makes the barrier wait until the client has acknowledged its inbound configuration.
// The barrier must be set.
func (b *serverFirstBarrier) awaitServer(c *Client) { b.servers[c] = struct{}{} }

// awaitGenerator makes the barrier wait until the producer has its next Product. The barrier must
// be set.
func (b *serverFirstBarrier) awaitGenerator(pr *producer) { b.generating[pr] = struct{}{} }

// awaitServersOf makes the barrier wait for all clients of a producer whose Product has changed. It
// does nothing unless the barrier waits for the producer (awaitGenerator).
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

// markAcked records that a client has acknowledged its class's whole ResourceSnapshot, so that the
// barrier no longer waits for it. It does nothing if that ResourceSnapshot lacks the newest inbound
// configuration.
func (b *serverFirstBarrier) markAcked(c *Client) {
	if _, awaited := b.servers[c]; awaited && c.class.hasNewestInbound() {
		delete(b.servers, c)
	}
}

// removeClient makes the barrier no longer wait for a client that has disconnected.
func (b *serverFirstBarrier) removeClient(c *Client) { delete(b.servers, c) }

// removeProducer deletes all state of a producer that no class needs any more.
func (b *serverFirstBarrier) removeProducer(pr *producer) {
	delete(b.generating, pr)
	delete(b.held, pr)
	delete(b.passing, pr)
	delete(b.retained, pr)
}

// finishGenerating records that a producer has nothing more to generate, so that the barrier no
// longer waits for it.
func (b *serverFirstBarrier) finishGenerating(pr *producer) { delete(b.generating, pr) }

// isSet reports whether a barrier is set, so that the resources of some generators are held back.
func (b *serverFirstBarrier) isSet() bool { return b.level != holdNothing }

// awaitedCount returns the number of producers and servers that the barrier waits for.
func (b *serverFirstBarrier) awaitedCount() int { return len(b.generating) + len(b.servers) }

// releaseAt returns when the barrier is released if nothing more is acknowledged. That is
// barrierTimeout after it was set while producers or servers are awaited or other control planes'
// proxies are affected. Otherwise it is applyDelay after it was set if endpoints are held, and at
// once if not.
func (b *serverFirstBarrier) releaseAt() time.Time {
	switch {
	case b.awaitedCount() > 0 || b.othersAffected:
		return b.since.Add(barrierTimeout)
	case b.level == holdEndpoints:
		return b.since.Add(applyDelay)
	default:
		return b.since
	}
}

// groupToServe returns the ResourceGroup of a producer that must be served now: the held one if the
// barrier holds the producer back, otherwise its newest. ready is false if the newest must be
// served but the producer is busy, has failed or has no Product.
func (b *serverFirstBarrier) groupToServe(pr *producer) (group *stream.ResourceGroup, ready bool) {
	if held := b.held[pr]; held != nil {
		return held, true
	}
	return pr.group, !pr.busy && !pr.failed && pr.group != nil
}

// retainEndpoints replaces in groups, which are in the order of the class's producers, the
// endpoints of clusters that are held back and will be removed. The newest configuration has no
// such cluster, so its endpoints come out empty; but routes still refer to it, and their requests
// would fail. It changes nothing if the barrier is not set.
//
// While the clusters are being generated, it is not known which will be removed. Until then all
// endpoints stay as the class has them. It returns false only if the class has none yet: then it
// cannot be served.
func (b *serverFirstBarrier) retainEndpoints(cl *class, groups []*stream.ResourceGroup) (ready bool) {
	if !b.isSet() {
		return true
	}
	for _, clusters := range cl.producers {
		held := b.held[clusters]
		if clusters.gen.TypeURL != api.ClusterType || held == nil {
			continue
		}
		for i, endpoints := range cl.producers {
			switch {
			case endpoints.gen.TypeURL != api.EndpointType || b.held[endpoints] != nil || b.passing[endpoints] == nil:
			case clusters.busy && cl.groups == nil:
				return false
			case clusters.busy:
				groups[i] = cl.groups[i]
			case held != clusters.group:
				groups[i] = b.retainedGroup(clusters, endpoints)
			}
		}
	}
	return true
}

// retainedGroup returns the ResourceGroup of the producer endpoints in which the endpoints of
// removed clusters are as they were when the barrier was set. If there are none, it returns the
// producer's own. All classes that share both producers share the result.
func (b *serverFirstBarrier) retainedGroup(clusters, endpoints *producer) *stream.ResourceGroup {
	if done := b.retained[endpoints]; done.clusters == clusters.group && done.endpoints == endpoints.group {
		return done.group
	}
	var before []*resource.Resource
	held := b.held[clusters].Set()
	for _, name := range resource.Compare(held, clusters.group.Set()).Removed {
		if r := b.passing[endpoints].Set().Get(endpointsOf(held.Get(name))); r != nil {
			before = append(before, r)
		}
	}
	group := endpoints.group
	if set := group.Set().With(before, nil); set != group.Set() {
		group = stream.NewNamedResourceGroup(set, group.LookedUpNames())
	}
	b.retained[endpoints] = retained{clusters.group, endpoints.group, group}
	return group
}
