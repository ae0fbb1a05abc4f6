package fleet

import (
	"fmt"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/wire"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// handleResponse handles one response: it stores the new resources, acknowledges, and requests the
// resources that they refer to.
func (p *proxy) handleResponse(b []byte, now time.Time) error {
	p.state.Lock()
	defer p.state.Unlock()
	r := &p.response
	if err := r.Parse(b, p.f.options.Delta); err != nil {
		return fmt.Errorf("read a response: %w", err)
	}
	defer r.Release()
	t := wire.TypeOf(r.TypeURL)
	p.countResponse(t, len(b), now)
	if t == wire.NumTypes {
		return fmt.Errorf("a response of type %q, which was not requested", r.TypeURL)
	}
	p.nonce[t], p.version[t], p.got[t] = string(r.Nonce), string(r.Version), true

	var news news
	if whole := !p.f.options.Delta && t.Wildcard(); whole {
		before := append([]int32(nil), p.held[t]...)
		clear(p.held[t])
		clear(p.listeners)
		if err := p.storeResources(t, &news, now); err != nil {
			return err
		}
		p.removeMissing(t, before, now)
	} else {
		if err := p.storeResources(t, &news, now); err != nil {
			return err
		}
		p.removeResources(t, &news, now)
	}
	p.sendAck(t)
	switch t {
	case wire.CDS:
		p.followClusters(&news)
	case wire.LDS:
		p.followListeners(wire.RDS, func(b *book) []int32 { return b.routes })
		p.followListeners(wire.ECDS, func(b *book) []int32 { return b.extensions })
	}
	// Envoy starts LDS when all clusters are warm.
	if !p.asked[wire.LDS] && p.got[wire.CDS] && p.hasAll(wire.EDS) {
		p.requestType(wire.LDS)
	}
	p.checkSync(now)
	return nil
}

func (p *proxy) countResponse(t wire.Type, size int, now time.Time) {
	c := &p.f.count
	c.messages[t].Add(1)
	c.bytes[t].Add(int64(size))
	c.resources[t].Add(int64(len(p.response.Resources)))
	c.removed[t].Add(int64(len(p.response.Removed)))
	c.last.Store(now.UnixNano())
	p.heard.Add(1)
}

// news is the change that a response causes in the EDS names that a proxy subscribes to.
type news struct {
	add, drop []int32 // delta
	needed    idSet   // SotW: all of them
	content   uint64
}

// storeResources takes in the resources of a response.
func (p *proxy) storeResources(t wire.Type, n *news, now time.Time) error {
	for _, e := range p.response.Resources {
		b, number, err := p.f.library.findEdition(t, e)
		if err != nil {
			return err
		}
		if t.Wildcard() || p.wanted[t].hasID(b.id) { // resources that a proxy does not subscribe to are ignored
			p.storeEdition(t, b.id, number)
		}
		switch {
		case t == wire.LDS && len(b.routes)+len(b.extensions) > 0:
			p.listeners[b.id] = b
		case t == wire.LDS:
			delete(p.listeners, b.id)
		case b.endpoints < 0:
		case !p.f.options.Delta:
			n.content += b.sum
			n.needed.addID(b.endpoints)
		case p.wanted[wire.EDS].addID(b.endpoints):
			n.add = append(n.add, b.endpoints)
		}
		for _, m := range b.marks {
			p.f.recordArrival(p.index, t, m, now)
		}
	}
	return nil
}

// removeResources deletes the removed resources of a delta response.
func (p *proxy) removeResources(t wire.Type, n *news, now time.Time) {
	for _, name := range p.response.Removed {
		id, ok := p.f.library.idOf(name)
		if !ok {
			continue
		}
		if m, ok := workload.FindRemoval(t, name); ok {
			p.f.recordArrival(p.index, t, m, now)
		}
		if !t.Wildcard() {
			p.storeEdition(t, id, -1)
			continue
		}
		p.storeEdition(t, id, 0)
		delete(p.listeners, id)
		if eds, ok := p.f.library.endpointsOf(id); ok && t == wire.CDS && p.wanted[wire.EDS].removeID(eds) {
			n.drop = append(n.drop, eds)
			p.storeEdition(wire.EDS, eds, 0)
		}
	}
}

// removeMissing deletes resources that a SotW response no longer contains.
func (p *proxy) removeMissing(t wire.Type, before []int32, now time.Time) {
	for id, was := range before {
		if was <= 0 || p.held[t][id] != 0 {
			continue
		}
		p.f.library.mu.RLock()
		name := p.f.library.names[id]
		p.f.library.mu.RUnlock()
		if m, ok := workload.FindRemoval(t, []byte(name)); ok {
			p.f.recordArrival(p.index, t, m, now)
		}
	}
}

func (p *proxy) storeEdition(t wire.Type, id, edition int32) {
	if more := int(id) + 1 - len(p.held[t]); more > 0 {
		p.held[t] = append(p.held[t], make([]int32, more)...)
	}
	p.held[t][id] = edition
}

func (p *proxy) hasAll(t wire.Type) bool {
	all := true
	p.wanted[t].forEach(func(id int32) { all = all && int(id) < len(p.held[t]) && p.held[t][id] != 0 })
	return all
}

// followClusters requests the endpoints of the current clusters.
func (p *proxy) followClusters(n *news) {
	if p.f.options.Delta {
		p.sendSubscription(wire.EDS, n.add, n.drop)
		return
	}
	p.wanted[wire.EDS] = n.needed
	for id := range p.held[wire.EDS] {
		if !n.needed.hasID(int32(id)) {
			p.held[wire.EDS][id] = 0
		}
	}
	// Envoy requests EDS again whenever a cluster was added or updated, to warm it.
	if n.content != p.clusters && !n.needed.isEmpty() {
		p.asked[wire.EDS] = true
		p.sendRequest(wire.EDS, false)
	}
	p.clusters = n.content
}

// followListeners requests the resources of type t that the current listeners need.
func (p *proxy) followListeners(t wire.Type, names func(*book) []int32) {
	var needed idSet
	for _, b := range p.listeners {
		for _, id := range names(b) {
			needed.addID(id)
		}
	}
	var add, drop []int32
	needed.forEach(func(id int32) {
		if p.wanted[t].addID(id) {
			add = append(add, id)
		}
	})
	p.wanted[t].forEach(func(id int32) {
		if !needed.hasID(id) {
			drop = append(drop, id)
		}
	})
	for _, id := range drop {
		p.wanted[t].removeID(id)
		p.storeEdition(t, id, 0)
	}
	switch {
	case p.f.options.Delta:
		p.sendSubscription(t, add, drop)
	case len(add)+len(drop) > 0:
		p.asked[t] = true
		p.sendRequest(t, false)
	}
}

// checkSync records when the proxy has everything that it requested on this stream.
func (p *proxy) checkSync(now time.Time) {
	if p.assigned.Load() != nil || !p.got[wire.CDS] || !p.got[wire.LDS] {
		return
	}
	for _, t := range []wire.Type{wire.EDS, wire.RDS, wire.ECDS} {
		if !p.hasAll(t) || !p.got[t] && !p.wanted[t].isEmpty() {
			return
		}
	}
	p.assigned.Store(&Assignment{Address: int(p.dialed.Load()), Since: now})
	if r := p.syncing; r != nil {
		p.syncing, p.complete = nil, true
		r.recordArrival(p.index, now)
	}
}
