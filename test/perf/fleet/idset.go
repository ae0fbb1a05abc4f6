package fleet

import "math/bits"

// idSet is a set of interned names.
type idSet []uint64

func (s *idSet) addID(id int32) bool {
	for int(id>>6) >= len(*s) {
		*s = append(*s, 0)
	}
	bit := uint64(1) << (id & 63)
	if (*s)[id>>6]&bit != 0 {
		return false
	}
	(*s)[id>>6] |= bit
	return true
}

func (s idSet) hasID(id int32) bool { return int(id>>6) < len(s) && s[id>>6]&(1<<(id&63)) != 0 }

func (s idSet) removeID(id int32) bool {
	if !s.hasID(id) {
		return false
	}
	s[id>>6] &^= 1 << (id & 63)
	return true
}

func (s idSet) forEach(fn func(int32)) {
	for i, w := range s {
		for ; w != 0; w &= w - 1 {
			fn(int32(i<<6 + bits.TrailingZeros64(w)))
		}
	}
}

func (s idSet) isEmpty() bool { return s.len() == 0 }

func (s idSet) len() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}
