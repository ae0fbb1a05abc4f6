package push

import (
	"iter"
	"math/bits"
)

// maxChanges is how many changes are recorded. It is a multiple of 64.
const maxChanges = 256

// pendingChanges is a set of recorded changes that a stream was offered and has not answered
// completely. It has a bit for each position in the ring of changes, so that it takes no memory
// besides its own.
type pendingChanges struct {
	newest uint64 // number of the newest change that was added
	bits   [maxChanges / 64]uint64
}

// pendingChange returns the set with one change. It is empty if number is 0.
func pendingChange(number uint64) (p pendingChanges) {
	if number > 0 {
		p.newest = number
		p.bits[number%maxChanges/64] = 1 << (number % 64)
	}
	return p
}

// isEmpty reports whether the set has no change.
func (p *pendingChanges) isEmpty() bool { return p.bits == [maxChanges / 64]uint64{} }

// merge adds the changes of o. It drops changes that are no longer recorded when the newest of both
// sets is.
func (p *pendingChanges) merge(o pendingChanges) {
	if o.newest < p.newest {
		*p, o = o, *p
	}
	p.advanceTo(o.newest)
	for i, word := range o.bits {
		p.bits[i] |= word
	}
}

// advanceTo sets newest, which must not be lower than before, and drops the changes that a ring of
// changes up to newest no longer has.
func (p *pendingChanges) advanceTo(newest uint64) {
	if newest-p.newest >= maxChanges {
		p.bits = [maxChanges / 64]uint64{}
	} else {
		for n := p.newest + 1; n <= newest; n++ {
			p.bits[n%maxChanges/64] &^= 1 << (n % 64)
		}
	}
	p.newest = newest
}

// has reports whether the set has the change with this number.
func (p *pendingChanges) has(number uint64) bool {
	return number <= p.newest && p.newest-number < maxChanges && p.bits[number%maxChanges/64]&(1<<(number%64)) != 0
}

// numbers returns an iterator over the numbers of the changes, in no particular order.
func (p *pendingChanges) numbers() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for i, word := range p.bits {
			for ; word != 0; word &= word - 1 {
				position := uint64(i*64 + bits.TrailingZeros64(word))
				if !yield(p.newest - (p.newest-position)%maxChanges) {
					return
				}
			}
		}
	}
}
