package vip

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
)

// maxCandidates limits the number of candidates of a service. In a range that is half full, a
// service stays without an address with probability 2^-1024.
const maxCandidates = 1024

// Key identifies a service. Its parts are hashed, so they must be equal in all replicas.
type Key struct{ Namespace, Host string }

// Request asks for an address for a service.
type Request struct {
	Key
	// Created decides between two requests for one address: the older has precedence. Requests
	// without a time precede all others and are ordered by name.
	Created time.Time
	// Wanted is an address that was allocated before, for example by another control plane, or the
	// zero value. A request with one precedes all requests without. It may be outside of the pool's
	// range.
	Wanted netip.Addr
}

// precedes reports whether c has precedence over o for the same address. A request for a certain
// address precedes one for any; then the older one does, then host and namespace decide.
func (c *Request) precedes(o *Request) bool {
	if c.Wanted.IsValid() != o.Wanted.IsValid() {
		return c.Wanted.IsValid()
	}
	return cmp.Or(
		c.Created.Compare(o.Created),
		strings.Compare(c.Host, o.Host),
		strings.Compare(c.Namespace, o.Namespace),
	) < 0
}

// Pool allocates the addresses of one range. It must be used by one goroutine at a time.
type Pool struct {
	prefix  netip.Prefix
	holders map[Key]*holder
	at      map[netip.Addr]*holder
	// refused maps an address to the requests that prefer it to their current address.
	refused map[netip.Addr]map[*holder]struct{}
	// reserved is the number of services that have an address explicitly. Such an address is not
	// allocated.
	reserved map[netip.Addr]int
}

// holder is a request and its current address.
type holder struct {
	Request
	candidate int // index in the sequence: of its address, or of the next candidate to try
	address   netip.Addr
}

// NewPool returns a Pool of all addresses of a range except for the first and the last. A range of
// less than 4 addresses has none to allocate.
func NewPool(prefix netip.Prefix) *Pool {
	return &Pool{
		prefix: prefix.Masked(), holders: map[Key]*holder{}, at: map[netip.Addr]*holder{},
		refused: map[netip.Addr]map[*holder]struct{}{}, reserved: map[netip.Addr]int{},
	}
}

// Address returns the address of a service. It returns the zero value if the service has not
// requested one or no candidate was free.
func (p *Pool) Address(k Key) netip.Addr {
	if h := p.holders[k]; h != nil {
		return h.address
	}
	return netip.Addr{}
}

// Set adds or replaces the request of a service. It returns the other services whose address
// changed. An equal request changes nothing.
func (p *Pool) Set(c Request) (moved []Key) {
	if h := p.holders[c.Key]; h != nil {
		if h.Created.Equal(c.Created) && h.Wanted == c.Wanted {
			return nil
		}
		moved = p.Remove(c.Key)
	}
	h := &holder{Request: c}
	p.holders[c.Key] = h
	return append(moved, p.assignAddress(h)...)
}

// Remove deletes the request of a service. It returns the other services whose address changed. It
// does nothing for an unknown service.
func (p *Pool) Remove(k Key) (moved []Key) {
	h := p.holders[k]
	if h == nil {
		return nil
	}
	delete(p.holders, k)
	for place := range min(h.candidate, maxCandidates) {
		p.removeRefused(h, p.candidateAddress(h, place))
	}
	if !h.address.IsValid() {
		return nil
	}
	delete(p.at, h.address)
	return p.reassignAddress(h.address)
}

// Reserve excludes an address from allocation, because a service has it explicitly. Reservations
// are counted. It returns the services whose address changed, and ignores addresses outside of the
// range.
func (p *Pool) Reserve(a netip.Addr) (moved []Key) {
	if !p.prefix.Contains(a) {
		return nil
	}
	if p.reserved[a]++; p.reserved[a] > 1 || p.at[a] == nil {
		return nil
	}
	h := p.at[a]
	delete(p.at, a)
	p.skipCandidate(h, a)
	return append(p.assignAddress(h), h.Key)
}

// Release reverts one Reserve of the address. After the last, the address may be allocated again.
// It returns the services whose address changed, and ignores addresses that are not reserved.
func (p *Pool) Release(a netip.Addr) (moved []Key) {
	if !p.prefix.Contains(a) || p.reserved[a] == 0 {
		return nil
	}
	if p.reserved[a]--; p.reserved[a] > 0 {
		return nil
	}
	delete(p.reserved, a)
	return p.reassignAddress(a)
}

// assignAddress assigns to h the first of its candidates, from the current one on, that is free or
// held by a request with lower precedence. Each request that is displaced is then assigned another
// one in the same way. A request without a free candidate gets no address. It returns the displaced
// services.
func (p *Pool) assignAddress(h *holder) (moved []Key) {
	first := h
	for h != nil {
		h.address = netip.Addr{}
		for ; h.candidate < maxCandidates; h.candidate++ {
			a := p.candidateAddress(h, h.candidate)
			there := p.at[a]
			if !a.IsValid() || p.reserved[a] > 0 || there != nil && there.precedes(&h.Request) {
				p.addRefused(h, a)
				continue
			}
			p.at[a], h.address = h, a
			if h != first {
				moved = append(moved, h.Key)
			}
			if h = there; h != nil {
				p.skipCandidate(h, a)
			}
			break
		}
		if h != nil && h.candidate == maxCandidates {
			h.address = netip.Addr{}
			if h != first {
				moved = append(moved, h.Key)
			}
			return moved
		}
	}
	return moved
}

// skipCandidate adds h to the requests that were refused its candidate addr, and advances h to its
// next candidate. It assigns no address. After the last candidate, h.candidate is maxCandidates.
func (p *Pool) skipCandidate(h *holder, addr netip.Addr) {
	p.addRefused(h, addr)
	h.candidate++
}

// reassignAddress assigns a free address to the request with the highest precedence that was
// refused it. It then does the same with the former address of that request. It returns the
// services whose address changed. It does nothing if addr is reserved or in use, or no request was
// refused it.
func (p *Pool) reassignAddress(addr netip.Addr) (moved []Key) {
	for addr.IsValid() && p.reserved[addr] == 0 && p.at[addr] == nil {
		var next *holder
		for h := range p.refused[addr] {
			if next == nil || h.precedes(&next.Request) {
				next = h
			}
		}
		if next == nil {
			return moved
		}
		free := next.address
		p.assignEarlier(next, addr)
		moved = append(moved, next.Key)
		if free.IsValid() {
			delete(p.at, free)
		}
		addr = free
	}
	return moved
}

// assignEarlier assigns to h the address addr, which precedes its current candidate and was refused
// to it earlier, and updates p.refused. addr must be one of h's candidates.
func (p *Pool) assignEarlier(h *holder, addr netip.Addr) {
	was := h.candidate
	h.candidate = 0
	for p.candidateAddress(h, h.candidate) != addr {
		h.candidate++
	}
	for place := h.candidate; place < was; place++ {
		p.removeRefused(h, p.candidateAddress(h, place))
	}
	for place := range h.candidate { // an address may occur in a sequence twice
		p.addRefused(h, p.candidateAddress(h, place))
	}
	h.address, p.at[addr] = addr, h
}

// addRefused adds h to p.refused[addr]. It does nothing if addr is the zero value.
func (p *Pool) addRefused(h *holder, addr netip.Addr) {
	if !addr.IsValid() {
		return
	}
	if p.refused[addr] == nil {
		p.refused[addr] = map[*holder]struct{}{}
	}
	p.refused[addr][h] = struct{}{}
}

// removeRefused removes h from p.refused[addr], and deletes that set when it is empty. It does
// nothing if h is not in it.
func (p *Pool) removeRefused(h *holder, addr netip.Addr) {
	delete(p.refused[addr], h)
	if len(p.refused[addr]) == 0 {
		delete(p.refused, addr)
	}
}

// candidateAddress returns candidate number place of h: Wanted first if it is set, then hashes of
// its name. It returns the zero value if the range is too small.
func (p *Pool) candidateAddress(h *holder, place int) netip.Addr {
	if h.Wanted.IsValid() {
		if place == 0 {
			return h.Wanted
		}
		place--
	}
	d := xxhash.New()
	_, _ = d.WriteString(h.Host)
	_, _ = d.Write([]byte{0})
	_, _ = d.WriteString(h.Namespace)
	_, _ = d.Write(binary.LittleEndian.AppendUint32([]byte{0}, uint32(place)))
	return p.addressAt(d.Sum64())
}

// addressAt maps a number to an address of the range. It excludes the first and, in ranges below
// 2^64, the last address. Only the lowest 2^64 addresses of larger ranges are used. It returns the
// zero value for ranges of less than 4 addresses.
func (p *Pool) addressAt(n uint64) netip.Addr {
	bits := p.prefix.Addr().BitLen() - p.prefix.Bits()
	if bits < 2 {
		return netip.Addr{}
	}
	if bits < 64 {
		n = 1 + n%(1<<bits-2)
	} else {
		n = max(n, 1)
	}
	b := p.prefix.Addr().AsSlice()
	for i := len(b) - 1; n > 0; i-- {
		b[i] |= byte(n)
		n >>= 8
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
