package snapshot_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

const http80 = "ports: [{name: http, number: 80, protocol: HTTP}]"

func TestAllocation(t *testing.T) {
	m := fixture.New(t, []byte(entry("a", "resolution: DNS, "+http80)), nil)
	plain := m.Snapshot().Service(host)
	if len(plain.Allocated) != 2 || len(plain.Addresses) != 0 {
		t.Fatalf("allocated %v, addresses %v", plain.Allocated, plain.Addresses)
	}
	for i, a := range plain.Allocated {
		if r := snapshot.DefaultAllocation().Ranges[i]; !r.Contains(netip.MustParseAddr(a)) {
			t.Errorf("%s is not of %s", a, r)
		}
	}
	known := m.Snapshot().WithAllocatedAddresses(plain)
	if diff := cmp.Diff(plain.Allocated, known.Addresses); diff != "" {
		t.Errorf("allocation with known addresses (-want +got):\n%s", diff)
	}
	// Rows stay as they are while nothing happens to them.
	s, _ := m.Apply(t, strings.ReplaceAll(entry("b", "resolution: DNS, "+http80), "h.example", "other.example"))
	if s.Service(host) != plain || s.WithAllocatedAddresses(plain) != known {
		t.Error("the row changed with another's")
	}
	// Addresses that an object specifies are not allocated to others, and are released with it.
	taken := fmt.Sprintf("addresses: [%s], resolution: STATIC, ", plain.Allocated[0])
	s, d := m.Apply(t, strings.ReplaceAll(entry("c", taken+http80), "h.example", "squatter.example"))
	if moved := s.Service(host).Allocated; moved[0] == plain.Allocated[0] || moved[1] != plain.Allocated[1] {
		t.Errorf("allocated %v beside one who names %s", moved, plain.Allocated[0])
	}
	if _, told := d.Services[host]; !told {
		t.Error("the delta does not report that the address moved")
	}
	s, _ = m.Delete(t, "kind: ServiceEntry\nmetadata: {name: c}\nspec: {}")
	if s.Service(host).Hash != plain.Hash {
		t.Errorf("Allocated = %v after the address was released", s.Service(host).Allocated)
	}
	s, _ = m.Apply(t, entry("a", "resolution: DNS, addresses: [198.51.100.1], "+http80))
	if svc := s.Service(host); len(svc.Allocated) != 0 || s.WithAllocatedAddresses(svc) != svc {
		t.Errorf("allocated %v to one that names its address", svc.Allocated)
	}
}

// TestAllocatedByStatus: addresses in the status of an object are kept, also outside of the ranges,
// and take precedence over all others.
func TestAllocatedByStatus(t *testing.T) {
	first := entry("a", "resolution: DNS, "+http80)
	m := fixture.New(t, []byte(first), nil)
	given := m.Snapshot().Service(host).Allocated
	status := fmt.Sprintf("status: {addresses: [{host: other.example.com, value: %s}, {host: other.example.com, value: 'fd00::1'}]}\n---\n", given[0])
	s, _ := m.Apply(t, strings.Replace(strings.Replace(entry("b", "resolution: DNS, "+http80), "h.example", "other.example", 1), "---\n", status, 1))
	other := s.Service(mesh.ServiceKey{Namespace: "default", Host: "other.example.com"})
	if diff := cmp.Diff([]string{given[0], "fd00::1"}, other.Allocated); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if now := s.Service(host).Allocated; now[0] == given[0] || now[1] != given[1] {
		t.Errorf("the one who had it has %v, had %v", now, given)
	}
}

// TestAllocationIsTheSameEverywhere: in whatever order objects come and go, a control plane that
// finds them so returns the same addresses. The range is small, so that many compete for one
// address.
func TestAllocationIsTheSameEverywhere(t *testing.T) {
	allocation := snapshot.Allocation{Ranges: []netip.Prefix{netip.MustParsePrefix("240.240.0.0/27"), netip.MustParsePrefix("2001:2::/124")}}
	build := func() *snapshot.Builder {
		return snapshot.NewBuilder(snapshot.Options{Cluster: "Kubernetes", Allocation: allocation})
	}
	random := rand.New(rand.NewPCG(1, 2))
	edited, there := build(), map[string]mesh.Event{}
	for range 300 {
		name := fmt.Sprintf("s%d.example.com", random.IntN(30))
		svc := mesh.Service{
			ServiceKey: mesh.ServiceKey{Namespace: "default", Host: mesh.Hostname(name)}, Provider: mesh.External, Cluster: "Kubernetes",
			Resolution: mesh.DNS, Allocates: random.IntN(5) > 0, Created: time.Unix(int64(random.IntN(5)), 0).UTC(),
			From: config.Key{Kind: "ServiceEntry", Namespace: "default", Name: name},
		}
		if random.IntN(8) == 0 {
			svc.Addresses = []string{fmt.Sprintf("240.240.0.%d", random.IntN(32))}
		}
		e := mesh.Event{Service: svc.Sealed()}
		if random.IntN(4) == 0 {
			e.Op = mesh.Delete
			delete(there, name)
		} else {
			there[name] = e
		}
		s, _ := edited.Apply(e)
		fresh := build()
		for _, e := range there {
			fresh.Apply(e)
		}
		for _, svc := range fresh.Current().Services() {
			got := s.Service(svc.ServiceKey)
			if diff := cmp.Diff(svc, got); diff != "" {
				t.Fatalf("-found so +edited:\n%s", diff)
			}
			if diff := cmp.Diff(fresh.Current().WithAllocatedAddresses(svc), s.WithAllocatedAddresses(got)); diff != "" {
				t.Fatalf("-found so +edited:\n%s", diff)
			}
		}
		if len(s.Services()) != len(there) {
			t.Fatalf("%d services, want %d", len(s.Services()), len(there))
		}
	}
}

func TestKnowsAllocated(t *testing.T) {
	for _, c := range []struct {
		allocation snapshot.Allocation
		proxy      string
		want       bool
	}{
		{snapshot.DefaultAllocation(), "{}", false},
		{snapshot.DefaultAllocation(), "{dnsCapture: true}", true},
		{snapshot.DefaultAllocation(), "{dnsAutoAllocate: true}", false},
		{snapshot.Allocation{}, "{dnsCapture: true, dnsAutoAllocate: true}", false},
		{snapshot.Allocation{Ranges: snapshot.DefaultAllocation().Ranges, OnlyOnRequest: true}, "{dnsCapture: true}", false},
		{snapshot.Allocation{Ranges: snapshot.DefaultAllocation().Ranges, OnlyOnRequest: true}, "{dnsCapture: true, dnsAutoAllocate: true}", true},
	} {
		s := snapshot.NewBuilder(snapshot.Options{Allocation: c.allocation}).Current()
		if got := s.KnowsAllocatedAddresses(fixture.Proxy(t, []byte(c.proxy))); got != c.want {
			t.Errorf("%+v of %+v: %t", c.proxy, c.allocation, got)
		}
	}
}
