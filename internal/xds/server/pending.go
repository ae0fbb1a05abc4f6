package server

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"time"
)

// maxPendingAge is how long an entry may be pending before the next arrival drops it.
const maxPendingAge = 30 * time.Second

// pendingSet contains connections or calls that are not admitted yet, in order of arrival. It is
// bounded for each source address and in total. When it is full, the oldest entry is dropped and
// the new one is not refused. Silent clients wait longest, so a flood of them mostly drops its own
// connections.
type pendingSet struct {
	perSource, total int
	now              func() time.Time

	mu      sync.Mutex
	all     *list.List // of *pendingEntry, oldest first
	sources map[netip.Addr]*list.List
	dropped uint64
}

// pendingEntry is a member of a pendingSet.
type pendingEntry struct {
	set           *pendingSet
	source        netip.Addr
	since         time.Time
	drop          func() // ends the connection or call; called without locks, at most once
	all, bySource *list.Element
}

// newPendingSet returns an empty set of at most total entries, and perSource for each source.
func newPendingSet(perSource, total int) *pendingSet {
	return &pendingSet{
		perSource: perSource, total: total, now: time.Now, all: list.New(), sources: map[netip.Addr]*list.List{},
	}
}

// add adds an entry for a connection or call from source, and returns it. Then it drops (calls drop
// of) the oldest entries beyond perSource of this source and beyond total, and entries older than
// maxPendingAge. It calls drop without p.mu; drop must not block. Both limits must be positive.
func (p *pendingSet) add(source netip.Addr, drop func()) *pendingEntry {
	e := &pendingEntry{set: p, source: source, drop: drop, since: p.now()}
	p.mu.Lock()
	mine := p.sources[source]
	if mine == nil {
		mine = list.New()
		p.sources[source] = mine
	}
	e.all, e.bySource = p.all.PushBack(e), mine.PushBack(e)
	victims := p.removeSurplus(mine, e.since)
	p.mu.Unlock()
	for _, v := range victims {
		v.drop()
	}
	return e
}

// removeSurplus removes and returns the oldest entries until the set and mine, the list of one
// source, are within their limits and no entry is older than maxPendingAge. It counts them in
// p.dropped, but does not call drop. Neither list may be empty, and p.mu must be held.
func (p *pendingSet) removeSurplus(mine *list.List, now time.Time) (victims []*pendingEntry) {
	for {
		oldest := p.all.Front().Value.(*pendingEntry)
		ofSource := mine.Front().Value.(*pendingEntry)
		switch {
		case mine.Len() > p.perSource:
			oldest = ofSource
		case p.all.Len() > p.total:
		case now.Sub(oldest.since) > maxPendingAge:
		default:
			return victims
		}
		p.unlink(oldest)
		p.dropped++
		victims = append(victims, oldest)
	}
}

// remove removes the entry because it was admitted or has ended. It may be called more than once,
// and on nil.
func (e *pendingEntry) remove() {
	if e == nil {
		return
	}
	e.set.mu.Lock()
	defer e.set.mu.Unlock()
	e.set.unlink(e)
}

// unlink removes an entry from the list of all entries and from the list of its source. It does
// nothing if it was removed before. p.mu must be held.
func (p *pendingSet) unlink(e *pendingEntry) {
	if e.all == nil {
		return
	}
	p.all.Remove(e.all)
	mine := p.sources[e.source]
	if mine.Remove(e.bySource); mine.Len() == 0 {
		delete(p.sources, e.source)
	}
	e.all, e.bySource = nil, nil
}

// count returns the number of entries.
func (p *pendingSet) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all.Len()
}

// sourceOf returns the IP address to which limits per source apply: for IPv6 its /64, because a
// host has a /64 of its own. It returns the zero address for an address that is not TCP.
func sourceOf(a net.Addr) netip.Addr {
	var ip netip.Addr
	if tcp, ok := a.(*net.TCPAddr); ok {
		ip = tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	if ip.Is6() {
		prefix, _ := ip.Prefix(64) // of 128 bits, 64 are never too many
		return prefix.Addr()
	}
	return ip
}
