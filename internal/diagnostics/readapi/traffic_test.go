package readapi

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/traffic"
)

// TestTrafficIsCut reads rates of more calls than an answer has: those with the lowest rates are left out,
// and of equal ones the last by name.
func TestTrafficIsCut(t *testing.T) {
	rates := map[TrafficCall]bool{}
	for i := range 6 {
		rates[TrafficCall{To: TopologyEnd{Service: fmt.Sprint("s", i)}, RequestsPerSecond: float64(i % 3)}] = true
	}
	rates[TrafficCall{To: TopologyEnd{Service: "tcp"}, BytesPerSecond: 5}] = true
	for range 20 { // the order of a map differs
		list := largestCalls(slices.Collect(maps.Keys(rates)), 5)
		var got string
		for _, c := range list {
			got += c.To.Service + " "
		}
		if want := "s2 s5 s1 s4 tcp "; got != want {
			t.Fatalf("the largest calls are %s, want %s", got, want)
		}
	}
}

// TestTraffic reads rates as an operator and as callers of namespaces, who see the calls of which they may
// read both ends. Calls of hosts and workloads that the topology does not have are counted only.
func TestTraffic(t *testing.T) {
	a := newCallAPI(t, callPolicy)
	if x := readView[Traffic](t, a, "", "/topology/traffic"); x.Configured || x.Calls == nil {
		t.Errorf("without a Prometheus the rates are %+v", x)
	}
	var failure error
	o := a.Options
	o.Traffic = func() (map[traffic.Pair]traffic.Rate, error) {
		if failure != nil {
			return nil, failure
		}
		return map[traffic.Pair]traffic.Rate{
			{Namespace: "shop", Workload: "web", Service: "cart.shop.svc.cluster.local"}:       {Requests: 3, Errors: 1},
			{Namespace: "pay", Workload: "bank", Service: "cart.shop.svc.cluster.local"}:       {Bytes: 5},
			{Namespace: "shop", Workload: "web", Service: "absent.shop.svc.cluster.local"}:     {Requests: 7},
			{Namespace: "unknown", Workload: "unknown", Service: "web.shop.svc.cluster.local"}: {Requests: 9},
		}, nil
	}
	a = New(o)
	const web = "web.shop.svc.cluster.local>cart.shop.svc.cluster.local 3 1 0; "
	for caller, want := range map[string]struct {
		calls   string
		omitted int
	}{
		"":     {web + "bank.pay.svc.cluster.local>cart.shop.svc.cluster.local 0 0 5; ", 2},
		"shop": {web, 1}, "pay": {"", 0}, "other": {"", 0},
	} {
		x := readView[Traffic](t, a, caller, "/topology/traffic")
		var got string
		for _, c := range x.Calls {
			got += fmt.Sprintf("%s>%s %v %v %v; ", c.From, c.To, c.RequestsPerSecond, c.ErrorsPerSecond, c.BytesPerSecond)
		}
		if got != want.calls || x.Omitted != want.omitted || !x.Configured || x.WindowSeconds != 120 {
			t.Errorf("%q sees %s and %+v", caller, got, x)
		}
	}
	if w := get(a, "-", "/topology/traffic"); w.Code != http.StatusUnauthorized {
		t.Errorf("a caller without a token: %d", w.Code)
	}
	failure = errors.New("query Prometheus: 503")
	if x := readView[Traffic](t, a, "", "/topology/traffic"); x.Error != failure.Error() || len(x.Calls) != 0 {
		t.Errorf("if Prometheus does not answer, the rates are %+v", x)
	}
}
