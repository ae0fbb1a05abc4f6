package vip

import (
	"net/netip"
	"testing"
	"time"
)

// FuzzPool: after any sequence of claims and releases every claim has the address that the simple
// algorithm (bySeniority) assigns. No claim has a reserved address, and no two have the same.
func FuzzPool(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 200, 3, 17})
	f.Add([]byte{0, 64, 128, 192, 0, 64, 128, 192})
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) > 200 {
			return
		}
		prefix := netip.MustParsePrefix("240.240.0.0/28")
		p, claims, reserved := NewPool(prefix), map[Key]Request{}, map[netip.Addr]int{}
		for i, s := range steps {
			k, a := Key{"ns", string(rune('a' + s&15))}, p.addressAt(uint64(s))
			switch s >> 6 {
			case 0, 1:
				c := Request{Key: k, Created: day.Add(time.Duration(s>>4) * time.Hour)}
				claims[k] = c
				p.Set(c)
			case 2:
				delete(claims, k)
				p.Remove(k)
			default:
				if i%2 == 0 && a.IsValid() {
					reserved[a]++
					p.Reserve(a)
				} else if reserved[a] > 0 {
					reserved[a]--
					p.Release(a)
				}
			}
		}
		want, held := bySeniority(prefix, claims, reserved), map[netip.Addr]Key{}
		for k := range claims {
			got := p.Address(k)
			if got != want[k] {
				t.Errorf("%v has %v, want %v", k, got, want[k])
			}
			if other, taken := held[got]; got.IsValid() && (taken || reserved[got] > 0) {
				t.Errorf("%v has %v, which is reserved (%d) or %v's", k, got, reserved[got], other)
			}
			held[got] = k
		}
	})
}
