package debug

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// readStatus returns the conditions of one metric in push_status.
func readStatus(t *testing.T, p *Pages, metric string) map[string]event {
	t.Helper()
	body, err := p.Page("push_status", Caller{})
	if err != nil {
		t.Fatal(err)
	}
	var status map[string]map[string]event
	if err := json.Unmarshal(body, &status); err != nil {
		t.Fatal(err)
	}
	return status[metric]
}

// TestPushStatusListsEachRejection: each proxy and type has the newest rejection that stands.
func TestPushStatusListsEachRejection(t *testing.T) {
	f := twoProxies(t)
	newest := f.nacks[0]
	of := func(p *mesh.Proxy, typeURL, message string, standing bool) push.Nack {
		return push.Nack{Proxy: p, TypeURL: typeURL, Message: message, Standing: standing}
	}
	web := f.nacks[1].Proxy
	f.nacks = []push.Nack{
		newest, of(web, api.ClusterType, "bad TLS", true), of(web, api.ListenerType, "ended", false),
		of(web, api.RouteType, "bad route", true), of(newest.Proxy, api.ClusterType, "older", true),
	}
	got := readStatus(t, pagesOf(t, fixture.New(t, nil, nil), f), "pilot_total_xds_rejects")
	want := map[string]event{
		"CDS/pay-1.bank": {"pay-1.bank", "bad cluster"}, "CDS/web-1.shop": {"web-1.shop", "bad TLS"},
		"RDS/web-1.shop": {"web-1.shop", "bad route"},
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestPushStatusDropsResolvedProblems: a proxy at an address where nothing is known is listed until
// something is.
func TestPushStatusDropsResolvedProblems(t *testing.T) {
	m := fixture.New(t, nil, nil)
	p := pagesOf(t, m, twoProxies(t))
	orphans := func() map[string]event { return readStatus(t, p, "pilot_no_ip") }
	if got := orphans(); len(got) != 2 || got["pay-1.bank"].Message == "" {
		t.Errorf("orphans %v, want both proxies", got)
	}
	m.Apply(t, `
kind: ServiceEntry
metadata: {name: pay, namespace: bank}
spec: {hosts: [pay.example.com], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: 10.9.9.9}]}
`)
	if got := orphans(); len(got) != 1 || got["web-1.shop"].Message == "" {
		t.Errorf("orphans %v, want only the proxy at whose address still nothing is", got)
	}
	if n := p.Trouble().Orphans; n != 1 {
		t.Errorf("%d orphans are counted", n)
	}
}
