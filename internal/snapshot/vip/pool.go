package vip

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
)

// maxPlaces bounds the sequence of a service. In a range that is half full one in 2^1024 is left without.
const maxPlaces = 1024

// Key names who has an address. Its parts are hashed, so they must not change from replica to replica.
type Key struct{ Namespace, Host string }

// Claim is somebody who wants an address.
type Claim struct {
	Key
	// Created decides between two who want one place: the older goes first. Those without an age go before all others,
	// by name.
	Created time.Time
	// Wanted is an address that the claimant was told before, the zero value if none; whoever has one goes before
	// those who have not. It may be outside the pool's range.
	Wanted netip.Addr
}

// before says that of two who want one place the first has it.
func (c *Claim) before(o *Claim) bool {
	if c.Wanted.IsValid() != o.Wanted.IsValid() {
		return c.Wanted.IsValid()
	}
	return cmp.Or(c.Created.Compare(o.Created), strings.Compare(c.Host, o.Host), strings.Compare(c.Namespace, o.Namespace)) < 0
}

// Pool is the addresses of one range and who has them. It is used by one goroutine.
type Pool struct {
	prefix  netip.Prefix
	holders map[Key]*holder
	at      map[netip.Addr]*holder
	// refused are those who would rather have an address than the one they have.
	refused map[netip.Addr]map[*holder]struct{}
	// reserved counts who names an address, which then is nobody's to be given.
	reserved map[netip.Addr]int
}

type holder struct {
	Claim
	place   int // in the sequence: where it is, or is to look
	address netip.Addr
}

// NewPool makes a Pool of all addresses of a range but its first and last.
func NewPool(prefix netip.Prefix) *Pool {
	return &Pool{
		prefix: prefix.Masked(), holders: map[Key]*holder{}, at: map[netip.Addr]*holder{},
		refused: map[netip.Addr]map[*holder]struct{}{}, reserved: map[netip.Addr]int{},
	}
}

// Address gives what somebody has, the zero value if nothing: who did not ask, or found the range full.
func (p *Pool) Address(k Key) netip.Addr {
	if h := p.holders[k]; h != nil {
		return h.address
	}
	return netip.Addr{}
}

// Set takes up a claim, or its new version. It gives all others who have another address now.
func (p *Pool) Set(c Claim) (moved []Key) {
	if h := p.holders[c.Key]; h != nil {
		if h.Created.Equal(c.Created) && h.Wanted == c.Wanted {
			return nil
		}
		moved = p.Remove(c.Key)
	}
	h := &holder{Claim: c}
	p.holders[c.Key] = h
	return append(moved, p.seat(h)...)
}

// Remove takes a claim back. It gives all others who have another address now.
func (p *Pool) Remove(k Key) (moved []Key) {
	h := p.holders[k]
	if h == nil {
		return nil
	}
	delete(p.holders, k)
	for place := range min(h.place, maxPlaces) {
		p.forget(h, p.placeOf(h, place))
	}
	if !h.address.IsValid() {
		return nil
	}
	delete(p.at, h.address)
	return p.fill(h.address)
}

// Reserve says that an address is taken, by somebody who names it. It gives who has to leave it.
func (p *Pool) Reserve(a netip.Addr) (moved []Key) {
	if !p.prefix.Contains(a) {
		return nil
	}
	if p.reserved[a]++; p.reserved[a] > 1 || p.at[a] == nil {
		return nil
	}
	h := p.at[a]
	delete(p.at, a)
	p.refuse(h, a)
	return append(p.seat(h), h.Key)
}

// Release takes back one Reserve of the address.
func (p *Pool) Release(a netip.Addr) (moved []Key) {
	if !p.prefix.Contains(a) || p.reserved[a] == 0 {
		return nil
	}
	if p.reserved[a]--; p.reserved[a] > 0 {
		return nil
	}
	delete(p.reserved, a)
	return p.fill(a)
}

// seat finds a place for one who has none, from the one on where it is to look; and for those who have to make room.
func (p *Pool) seat(h *holder) (moved []Key) {
	first := h
	for h != nil {
		h.address = netip.Addr{}
		for ; h.place < maxPlaces; h.place++ {
			a := p.placeOf(h, h.place)
			there := p.at[a]
			if !a.IsValid() || p.reserved[a] > 0 || there != nil && there.before(&h.Claim) {
				p.note(h, a)
				continue
			}
			p.at[a], h.address = h, a
			if h != first {
				moved = append(moved, h.Key)
			}
			if h = there; h != nil {
				p.refuse(h, a)
			}
			break
		}
		if h != nil && h.place == maxPlaces {
			if h != first {
				moved = append(moved, h.Key)
			}
			return moved
		}
	}
	return moved
}

// refuse has somebody who lost an address look further.
func (p *Pool) refuse(h *holder, a netip.Addr) {
	p.note(h, a)
	h.place++
}

// fill gives an address that has become free to the first of those who were refused it; and theirs to others.
func (p *Pool) fill(a netip.Addr) (moved []Key) {
	for a.IsValid() && p.reserved[a] == 0 && p.at[a] == nil {
		var next *holder
		for h := range p.refused[a] {
			if next == nil || h.before(&next.Claim) {
				next = h
			}
		}
		if next == nil {
			return moved
		}
		free := next.address
		p.moveBack(next, a)
		moved = append(moved, next.Key)
		if free.IsValid() {
			delete(p.at, free)
		}
		a = free
	}
	return moved
}

// moveBack gives somebody an address of which they were refused.
func (p *Pool) moveBack(h *holder, a netip.Addr) {
	was := h.place
	h.place = 0
	for p.placeOf(h, h.place) != a {
		h.place++
	}
	for place := h.place; place < was; place++ {
		p.forget(h, p.placeOf(h, place))
	}
	for place := range h.place { // an address may stand in a sequence twice
		p.note(h, p.placeOf(h, place))
	}
	h.address, p.at[a] = a, h
}

func (p *Pool) note(h *holder, a netip.Addr) {
	if !a.IsValid() {
		return
	}
	if p.refused[a] == nil {
		p.refused[a] = map[*holder]struct{}{}
	}
	p.refused[a][h] = struct{}{}
}

func (p *Pool) forget(h *holder, a netip.Addr) {
	delete(p.refused[a], h)
	if len(p.refused[a]) == 0 {
		delete(p.refused, a)
	}
}

// placeOf gives an address of somebody's sequence: the one that it was told before, then those that its name hashes to.
// It gives the zero value where there is none.
func (p *Pool) placeOf(h *holder, place int) netip.Addr {
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
	return p.nth(d.Sum64())
}

// nth gives the address that a number stands for. Ranges of more than 2^64 addresses are used as far as that.
func (p *Pool) nth(n uint64) netip.Addr {
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
