package main

import (
	"testing"
	"time"
)

// TestArrival checks that a change has arrived with the first response that shows it, and that
// addresses are unique.
func TestArrival(t *testing.T) {
	c := &client{healthy: map[string]bool{}, pending: map[string]pending{}}
	a, b := address(7, 0), address(7, 1)
	const cluster = "outbound|8080||service-0007.service.consul"
	c.storeService(cluster, map[string]bool{a: true, b: true}, time.Now())
	if !c.expect(a, false) || c.expect(a, true) {
		t.Error("an instance has at most one pending change")
	}
	began := c.pending[a].began
	c.storeService(cluster, map[string]bool{a: true, b: true}, began.Add(time.Millisecond))
	c.recordAccepted(a)
	if got, _ := c.takeLatencies(); len(got) != 0 {
		t.Errorf("latencies %v of a response without the change", got)
	}
	accepted := c.pending[a].accepted
	c.storeService(cluster, map[string]bool{b: true}, accepted.Add(2*time.Millisecond))
	got, added := c.takeLatencies()
	want := 2 * time.Millisecond
	if len(got) != 1 || got[0] != accepted.Sub(began)+want || len(added) != 1 || added[0] != want {
		t.Errorf("latencies %v, added %v; want 2ms added", got, added)
	}
	c.expect(b, false)
	c.storeService(cluster, nil, time.Now())
	if _, added := c.takeLatencies(); len(added) != 1 || added[0] != 0 {
		t.Errorf("added %v, want 0 for a change that is received before Consul answers", added)
	}
	if _, waiting, _ := c.counts(); waiting != 0 {
		t.Errorf("%d changes are pending", waiting)
	}
	seen := map[string]bool{}
	for s := range 5000 {
		for i := range 20 {
			if seen[address(s, i)] {
				t.Fatalf("two instances have the address %s", address(s, i))
			}
			seen[address(s, i)] = true
		}
	}
}

func TestPercentile(t *testing.T) {
	var list []time.Duration
	for i := 100; i > 0; i-- {
		list = append(list, time.Duration(i)*time.Millisecond)
	}
	const ms = time.Millisecond
	for p, want := range map[int]time.Duration{50: 51 * ms, 99: 100 * ms, 100: 100 * ms} {
		if got := percentile(list, p); got != want {
			t.Errorf("percentile %d is %v, want %v", p, got, want)
		}
	}
	if got := percentile(nil, 99); got != 0 {
		t.Errorf("%v of nothing", got)
	}
}
