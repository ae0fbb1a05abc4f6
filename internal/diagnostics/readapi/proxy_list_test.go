package readapi

import (
	"fmt"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// newFleetAPI returns the API of newAPI with proxies p0 to p9 of the namespaces shop and bank in turn,
// which connected one after the other, the last one first. p3 rejects its clusters, and p4 has not
// answered. Those from p5 have an Envoy of another version.
func newFleetAPI(t *testing.T, replica string) *API {
	t.Helper()
	var list connections
	for i := range 10 {
		proxy := &mesh.Proxy{
			Name: fmt.Sprint("p", i), Namespace: []string{"shop", "bank"}[i%2], Type: mesh.SidecarProxy,
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(20 - i)})}, EnvoyVersion: mesh.EnvoyVersion{Major: 1, Minor: 39},
		}
		if i >= 5 {
			proxy.EnvoyVersion.Minor = 40
		}
		w := push.Watch{TypeState: stream.TypeState{TypeURL: api.ClusterType, SentNonce: "2", AckedNonce: "2"}}
		switch i {
		case 3:
			w.Message = "no such\ncluster"
		case 4:
			w.AckedNonce = "1"
		}
		list = append(list, push.Connection{
			ID: fmt.Sprintf("p%d.x-%d", i, i), Proxy: proxy, ConnectedAt: time.Unix(int64(1000-i), 0), Types: []push.Watch{w},
		})
	}
	o := newAPI(t).Options
	o.Replica = replica
	o.Connections, o.StreamStates, o.Connection = list.Connections, list.StreamStates, list.Connection
	o.Pages = debug.New(debug.Options{Snapshot: o.Snapshot, Proxies: list, Access: o.Access})
	return New(o)
}

// TestProxyPages reads pages of the list of proxies, sorted, of those in a state or with words in their
// columns. Total is the number on all pages.
func TestProxyPages(t *testing.T) {
	a := newFleetAPI(t, "istiod-1")
	for _, c := range []struct {
		caller, query, want string
		total               int
	}{
		{"", "limit=3", "p0 p1 p2", 10},
		{"", "limit=3&offset=8", "p8 p9", 10},
		{"", "limit=3&offset=30", "", 10},
		{"", "limit=3&descending=true", "p9 p8 p7", 10},
		{"", "limit=2&sort=address", "p9 p8", 10},
		{"", "limit=2&sort=connected&descending=true", "p0 p1", 10},
		{"", "limit=6&sort=envoy&descending=true", "p5 p6 p7 p8 p9 p0", 10},
		{"", "sort=state&limit=2", "p3 p4", 10}, // ERROR, STALE, SYNCED
		{"", "state=behind", "p4", 1},
		{"", "state=rejecting", "p3", 1},
		{"", "filter=such+ERROR", "p3", 1},
		{"", "filter=1.40+.bank&limit=1", "p5", 3},
		{"", "filter=10.0.0.15", "p5", 1},
		{"", "filter=absent", "", 0},
		{"bank", "limit=2&offset=1", "p3 p5", 5},
		{"other", "", "", 0},
	} {
		x := readView[ProxyList](t, a, c.caller, "/proxies?"+c.query)
		if got := namesOf(x.Proxies); got != c.want || x.Total != c.total {
			t.Errorf("%q reads with %s: %s of %d, want %s of %d", c.caller, c.query, got, x.Total, c.want, c.total)
		}
	}
	x := readView[ProxyList](t, a, "", "/proxies?state=rejecting").Proxies
	if len(x) != 1 || x[0].State != ProxyError || x[0].Refused != "no such cluster" || x[0].Types["CDS"] != "ERROR" || x[0].Replica != "istiod-1" {
		t.Errorf("a row is %+v", x)
	}
}

// TestProxyPagesOfReplicas reads pages of the proxies of two replicas, of which each has ten.
func TestProxyPagesOfReplicas(t *testing.T) {
	other := httptest.NewServer(newFleetAPI(t, "istiod-2"))
	t.Cleanup(other.Close)
	a := newFleetAPI(t, "istiod-1")
	a.Peers.Addresses = []string{host(other)}
	for query, want := range map[string]string{
		"limit=3&offset=3":              "p1 p2 p2",
		"limit=2&sort=replica&offset=9": "p9 p0",
		"limit=2&state=behind":          "p4 p4",
	} {
		if x := readView[ProxyList](t, a, "", "/proxies?"+query); namesOf(x.Proxies) != want {
			t.Errorf("%s: %s, want %s", query, namesOf(x.Proxies), want)
		}
	}
	if x := readView[ProxyList](t, a, "", "/proxies?limit=1"); x.Total != 20 {
		t.Errorf("both replicas have %d proxies, want 20", x.Total)
	}
	v := readView[ProxyVersions](t, a, "bank", "/proxy-versions").Versions
	if want := []ProxyVersion{{EnvoyVersion: "1.40.0", Proxies: 6}, {EnvoyVersion: "1.39.0", Proxies: 4}}; !slices.Equal(v, want) {
		t.Errorf("the versions are %+v, want %+v", v, want)
	}
}

// namesOf returns the names of proxies without their namespaces.
func namesOf(list []Proxy) string {
	var names []string
	for _, p := range list {
		name, _, _ := strings.Cut(p.Proxy, ".")
		names = append(names, name)
	}
	return strings.Join(names, " ")
}
