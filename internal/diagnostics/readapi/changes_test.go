package readapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
)

// newChangeAPI returns the API of newAPI with two changes: the first snapshot, and objects of two
// namespaces, which a proxy of each has not acknowledged or rejects.
func newChangeAPI(t *testing.T) (*API, *atomic.Uint64) {
	t.Helper()
	web := &mesh.Proxy{Name: "web", Namespace: "shop"}
	pay := &mesh.Proxy{Name: "pay", Namespace: "bank"}
	list := []push.Change{{
		Number: 2, Snapshot: 7, Published: time.Unix(100, 0),
		Causes: []push.Cause{
			{Kind: push.ObjectChanged, Object: config.Key{Kind: api.VirtualService, Namespace: "bank", Name: "pay"}},
			{Kind: push.EndpointsChanged, Object: config.Key{Kind: api.Service, Namespace: "shop", Name: "cart"}},
		},
		Generated: &rollout.TurnEnded{
			Gathered: 10 * time.Millisecond, Took: 2500 * time.Microsecond, Resources: map[string]int{api.EndpointType: 3},
		},
		Classes: 2, Proxies: 5, Acknowledged: 2, Refused: 1, Disconnected: 1, First: 20 * time.Millisecond, Last: time.Second, Slowest: pay,
		Refusals: []push.ChangeRefusal{{TypeURL: api.RouteType, Resource: "80", Message: "no\nroute", Proxies: []*mesh.Proxy{pay}}},
		Behind:   []push.ChangeBehind{{Proxy: web, Types: []string{api.EndpointType}}, {Proxy: pay}},
	}, {Number: 1, Snapshot: 6, Published: time.Unix(50, 0), Causes: []push.Cause{{Kind: push.EverythingChanged}}, Generated: &rollout.TurnEnded{}}}
	o := newAPI(t).Options
	progress := new(atomic.Uint64)
	o.Changes = func() []push.Change {
		now := append([]push.Change{}, list...)
		now[0].Acknowledged += int(progress.Load())
		return now
	}
	o.ChangeProgress = progress.Load
	return New(o), progress
}

// TestChanges reads the changes as callers who may see everything, one of the namespaces, or none.
func TestChanges(t *testing.T) {
	a, _ := newChangeAPI(t)
	cart := ChangeCause{What: "endpoints", Kind: "Service", Namespace: "shop", Name: "cart"}
	pay := ChangeCause{What: "object", Kind: "VirtualService", Namespace: "bank", Name: "pay"}
	all := PushedChange{
		ID: "istiod-1.2", Replica: "istiod-1", Snapshot: 7, Time: time.Unix(100, 0), State: ChangeRejected, Causes: []ChangeCause{pay, cart},
		Classes: 2, Resources: map[string]int{"EDS": 3}, Proxies: 5, Acknowledged: 2, Rejected: 1, Disconnected: 1, Pending: 1,
		GeneratedMillis: 12.5, FirstMillis: 20, LastMillis: 1000, Slowest: "pay.bank",
		Behind:   []ProxyBehind{{Proxy: "pay.bank", Reason: "not sent yet"}, {Proxy: "web.shop", Reason: "EDS not acknowledged"}},
		Refusals: []Refusal{{Type: "RDS", Resource: "80", Message: "no route", Proxies: []string{"pay.bank"}}},
	}
	shop := all
	shop.Causes, shop.MoreCauses, shop.Slowest, shop.Behind, shop.Refusals = []ChangeCause{cart}, 1, "", all.Behind[1:], nil
	first := PushedChange{ID: "istiod-1.1", Replica: "istiod-1", Snapshot: 6, Time: time.Unix(50, 0), State: ChangeDone, Causes: []ChangeCause{{What: "everything"}}}
	onlyShop := all
	onlyShop.Causes, onlyShop.MoreCauses = []ChangeCause{cart}, 1
	for _, c := range []struct {
		caller, query string
		want          []PushedChange
	}{
		{"", "", []PushedChange{all, first}},
		{"", "?limit=1", []PushedChange{all}},
		{"", "?id=istiod-1.1", []PushedChange{first}},
		{"", "?namespace=shop", []PushedChange{onlyShop}},
		{"shop", "", []PushedChange{shop}},
		{"shop", "?namespace=bank", []PushedChange{}},
		{"other", "", []PushedChange{}},
	} {
		got := readView[Changes](t, a, c.caller, "/changes"+c.query)
		if d := cmp.Diff(Changes{Changes: c.want}, got, cmp.Comparer(time.Time.Equal)); d != "" {
			t.Errorf("%q reads %q (-want +got):\n%s", c.caller, c.query, d)
		}
	}
	if w := get(a, "-", "/changes"); w.Code != http.StatusUnauthorized {
		t.Errorf("a caller without a token: %d", w.Code)
	}
	if got := readView[Changes](t, newAPI(t), "", "/changes").Changes; got == nil || len(got) != 0 {
		t.Errorf("without a source the changes are %v", got)
	}
}

// TestWatchChanges reads events of two replicas: the initial state, and an update when a change at
// either has progressed.
func TestWatchChanges(t *testing.T) {
	other, further := newChangeAPI(t)
	other.Replica = "istiod-2"
	a, progress := newChangeAPI(t)
	peer, own := httptest.NewServer(other), httptest.NewServer(a)
	t.Cleanup(peer.Close)
	t.Cleanup(own.Close)
	a.Peers.Addresses = []string{host(peer)}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, own.URL+Prefix+"/changes/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	await := func(want string) {
		t.Helper()
		for lines.Scan() {
			text, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var x Changes
			if err := json.Unmarshal([]byte(text), &x); err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, c := range x.Changes {
				got += fmt.Sprintf("%s %d ", c.ID, c.Acknowledged)
			}
			if got == want {
				return
			}
		}
		t.Fatalf("the stream ended before %q: %v", want, lines.Err())
	}
	await("istiod-1.2 2 istiod-2.2 2 istiod-1.1 0 istiod-2.1 0 ")
	progress.Add(1)
	await("istiod-1.2 3 istiod-2.2 2 istiod-1.1 0 istiod-2.1 0 ")
	further.Add(1)
	await("istiod-1.2 3 istiod-2.2 3 istiod-1.1 0 istiod-2.1 0 ")
}
