package vip

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var day = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// bySeniority computes the expected addresses by the simple algorithm: one claim after the other,
// the oldest first.
func bySeniority(prefix netip.Prefix, claims map[Key]Request, reserved map[netip.Addr]int) map[Key]netip.Addr {
	p := NewPool(prefix)
	order := slices.Collect(maps.Values(claims))
	slices.SortFunc(order, func(a, b Request) int {
		if a.precedes(&b) {
			return -1
		}
		return 1
	})
	taken, given := map[netip.Addr]bool{}, map[Key]netip.Addr{}
	for _, c := range order {
		h := &holder{Request: c}
		for place := range maxCandidates {
			if a := p.candidateAddress(h, place); a.IsValid() && !taken[a] && reserved[a] == 0 {
				taken[a], given[c.Key] = true, a
				break
			}
		}
	}
	return given
}

// TestOrderMeansNothing applies claims and reservations in any order, in a range that is too small
// for them. Every replica with the same objects must assign the same addresses, and each change of
// an address must be reported.
func TestOrderMeansNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := netip.MustParsePrefix(rapid.SampledFrom([]string{"240.240.0.0/28", "2001:2::/124", "240.240.0.0/30", "240.240.0.0/31"}).Draw(t, "prefix"))
		p := NewPool(prefix)
		claims, reserved, seen := map[Key]Request{}, map[netip.Addr]int{}, map[Key]netip.Addr{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := Key{"ns", fmt.Sprintf("h%d", rapid.IntRange(0, 20).Draw(t, "host"))}
			address := p.addressAt(rapid.Uint64().Draw(t, "address"))
			var moved []Key
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				delete(claims, key)
				delete(seen, key)
				moved = p.Remove(key)
			case 1:
				moved = p.Reserve(address)
				if address.IsValid() {
					reserved[address]++
				}
			case 2:
				moved = p.Release(address)
				if reserved[address] > 0 {
					reserved[address]--
				}
			default:
				c := Request{Key: key, Created: day.AddDate(0, 0, rapid.IntRange(0, 3).Draw(t, "age"))}
				if rapid.IntRange(0, 3).Draw(t, "told") == 0 {
					c.Wanted = address
				}
				claims[key] = c
				moved = append(p.Set(c), key)
			}
			want := bySeniority(prefix, claims, reserved)
			got := map[Key]netip.Addr{}
			for k := range claims {
				if a := p.Address(k); a.IsValid() {
					got[k] = a
				}
				if before := seen[k]; before != p.Address(k) && !slices.Contains(moved, k) {
					t.Fatalf("%v moved from %v to %v without a report", k, before, p.Address(k))
				}
				seen[k] = p.Address(k)
			}
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Fatalf("-want +got:\n%s", diff)
			}
		}
	})
}

// TestNewServicesKeepExistingAddresses fills a range as big as Istio's by a tenth, and adds to it.
func TestNewServicesKeepExistingAddresses(t *testing.T) {
	p := NewPool(netip.MustParsePrefix("240.240.0.0/16"))
	taken := map[netip.Addr]bool{}
	for i := range 6500 {
		k := Key{"default", fmt.Sprintf("host-%d.example.com", i)}
		if moved := p.Set(Request{Key: k, Created: day.Add(time.Duration(i) * time.Second)}); len(moved) != 0 {
			t.Fatalf("the %dth moved %v", i, moved)
		}
		a := p.Address(k)
		if !a.IsValid() || taken[a] || !p.prefix.Contains(a) {
			t.Fatalf("the %dth has %v", i, a)
		}
		taken[a] = true
	}
}

// TestAddressesAreStable: the assigned addresses must not change between releases, because
// that would break connections that are opened while replicas of both releases run.
func TestAddressesAreStable(t *testing.T) {
	k := Key{"default", "db.example.com"}
	for prefix, want := range map[string]string{"240.240.0.0/16": "240.240.122.184", "2001:2::/48": "2001:2::c4f0:6300:2789:7815"} {
		p := NewPool(netip.MustParsePrefix(prefix))
		p.Set(Request{Key: k})
		if got := p.Address(k).String(); got != want {
			t.Errorf("%s of %s, want %s", got, prefix, want)
		}
	}
}

// TestDisplacedFromLastCandidate: a service that loses its last candidate to another one has no address,
// and removing it leaves the address to the other one.
func TestDisplacedFromLastCandidate(t *testing.T) {
	p := NewPool(netip.MustParsePrefix("240.240.0.0/16"))
	h := &holder{Request: Request{Key: Key{"default", "a.example.com"}, Created: day}}
	last := p.candidateAddress(h, maxCandidates-1)
	for place := range maxCandidates - 1 {
		if a := p.candidateAddress(h, place); a == last {
			t.Fatalf("candidates %d and the last are equal: choose another host", place)
		} else {
			p.Reserve(a)
		}
	}
	p.Set(h.Request)
	if got := p.Address(h.Key); got != last {
		t.Fatalf("it has %v, want its last candidate %v", got, last)
	}
	other := Key{"default", "b.example.com"}
	if moved := p.Set(Request{Key: other, Created: day, Wanted: last}); !slices.Equal(moved, []Key{h.Key}) {
		t.Errorf("moved %v", moved)
	}
	if a, b := p.Address(h.Key), p.Address(other); a.IsValid() || b != last {
		t.Errorf("addresses %v and %v, want none and %v", a, b, last)
	}
	p.Remove(h.Key)
	if p.Reserve(last); p.Address(other) == last {
		t.Errorf("%v is reserved, and %v still has it", last, other)
	}
}

func BenchmarkAddOneTo10000(b *testing.B) {
	p := NewPool(netip.MustParsePrefix("240.240.0.0/16"))
	for i := range 10000 {
		p.Set(Request{Key: Key{"default", fmt.Sprintf("host-%d.example.com", i)}, Created: day})
	}
	one := Request{Key: Key{"default", "one.example.com"}, Created: day.Add(time.Hour)}
	b.ReportAllocs()
	for b.Loop() {
		p.Set(one)
		p.Remove(one.Key)
	}
}
