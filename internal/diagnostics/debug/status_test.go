package debug

import (
	"encoding/json"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestPushStatusDropsResolvedProblems: a proxy at an address where nothing is known is listed until
// something is.
func TestPushStatusDropsResolvedProblems(t *testing.T) {
	m := fixture.New(t, nil, nil)
	p := pagesOf(t, m, twoProxies(t))
	orphans := func() map[string]event {
		body, err := p.Page("push_status", Caller{})
		if err != nil {
			t.Fatal(err)
		}
		var status map[string]map[string]event
		if err := json.Unmarshal(body, &status); err != nil {
			t.Fatal(err)
		}
		return status["pilot_no_ip"]
	}
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
