package readapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// connections are the proxies of a viewAPI: they implement debug.Proxies.
type connections []push.Connection

func (c connections) Connections() []push.Connection { return slices.Clone(c) }

func (c connections) StreamStates() (list []push.StreamState) {
	for _, x := range c {
		s := push.StreamState{ID: x.ID, Proxy: x.Proxy, ConnectedAt: x.ConnectedAt, Sync: stream.Synced}
		for _, w := range x.Types {
			switch {
			case w.Message != "":
				s.Sync = stream.Rejecting
			case w.SentNonce != w.AckedNonce:
				s.Sync = max(s.Sync, stream.Outdated)
			}
		}
		list = append(list, s)
	}
	return list
}

func (c connections) Connection(id string) (push.Connection, bool) {
	i := slices.IndexFunc(c, func(x push.Connection) bool { return x.ID == id })
	if i < 0 {
		return push.Connection{}, false
	}
	return c[i], true
}
func (connections) ViewKeys() []view.Key           { return nil }
func (connections) Nacks() []push.Nack             { return nil }
func (connections) Quarantine() []push.Quarantined { return nil }
func (connections) Deliveries(string, []*resource.Resource) []stream.Delivery {
	return nil
}

// watch returns a type whose newest response has the nonce sent, with one resource.
func watch(t *testing.T, typeURL, sent, acked, name string, m proto.Message, from ...config.Key) push.Watch {
	t.Helper()
	r, err := resource.Encode(name, typeURL, m, from...)
	if err != nil {
		t.Fatal(err)
	}
	set, err := resource.NewSet([]*resource.Resource{r})
	if err != nil {
		t.Fatal(err)
	}
	return push.Watch{
		TypeState: stream.TypeState{TypeURL: typeURL, Wildcard: true, SentNonce: sent, AckedNonce: acked},
		Groups:    []*stream.ResourceGroup{stream.NewResourceGroup(set)},
	}
}

// newViewAPI returns the API of newAPI with two proxies: web.shop has acknowledged everything, and
// pay.bank has not answered and rejects its clusters.
func newViewAPI(t *testing.T) *API {
	t.Helper()
	at := &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: "10.1.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 9080},
	}}}
	proxy := func(name, namespace string) *mesh.Proxy {
		return &mesh.Proxy{
			ID: "sidecar~10.0.0.1~" + name + "." + namespace + "~x", Name: name, Namespace: namespace, Type: mesh.SidecarProxy,
			Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Locality: mesh.Locality{Region: "r", Zone: "z"},
			Identity: "spiffe://cluster.local/ns/" + namespace + "/sa/" + name,
		}
	}
	const cluster = "outbound|9080|v1|reviews.shop.svc.cluster.local"
	rejected := watch(t, api.ClusterType, "2", "1", "c", &clusterv3.Cluster{Name: "c"})
	rejected.Message = "bad  cluster"
	list := connections{
		{ID: "web.shop-1", Proxy: proxy("web", "shop"), Types: []push.Watch{
			watch(t, api.ClusterType, "1", "1", cluster, &clusterv3.Cluster{
				Name: cluster, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
			}, config.Key{Kind: api.DestinationRule, Namespace: "shop", Name: "reviews"}, config.Key{Kind: api.DestinationRule, Namespace: "bank", Name: "secret"}),
			watch(t, api.ListenerType, "2", "2", "l", &listenerv3.Listener{Name: "l", Address: at, FilterChains: []*listenerv3.FilterChain{
				{FilterChainMatch: &listenerv3.FilterChainMatch{ServerNames: []string{"a.example"}, TransportProtocol: "tls"}}, {},
			}}),
			watch(t, api.RouteType, "3", "3", "9080", &routev3.RouteConfiguration{Name: "9080", VirtualHosts: []*routev3.VirtualHost{{
				Name: "reviews:9080", Domains: []string{"a", "b", "c", "d"}, Routes: []*routev3.Route{{
					Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/a"}},
					Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster}}},
				}},
			}}}),
			watch(t, api.EndpointType, "4", "4", cluster, &endpointv3.ClusterLoadAssignment{
				ClusterName: cluster, Endpoints: []*endpointv3.LocalityLbEndpoints{{
					Locality: &corev3.Locality{Region: "r", Zone: "z"}, LbEndpoints: []*endpointv3.LbEndpoint{{
						HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: at}},
					}},
				}},
			}),
			watch(t, api.SecretType, "5", "5", "kubernetes://cert", &tlsv3.Secret{Name: "kubernetes://cert"},
				config.Key{Kind: api.Secret, Namespace: "shop", Name: "cert"}, config.Key{Kind: api.Secret, Namespace: "bank", Name: "cert"}),
		}},
		{ID: "pay.bank-2", Proxy: proxy("pay", "bank"), Types: []push.Watch{rejected}},
	}
	a := newAPI(t)
	o := a.Options
	o.Connections, o.StreamStates, o.Connection = list.Connections, list.StreamStates, list.Connection
	o.Pages = debug.New(debug.Options{Snapshot: o.Snapshot, Proxies: list, Access: o.Access})
	o.Problems = o.Pages.Problems
	return New(o)
}

// readView reads a document as a caller; see get.
func readView[T any](t *testing.T, a *API, caller, path string) (x T) {
	t.Helper()
	w := get(a, caller, path)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &x); err != nil {
		t.Fatal(err)
	}
	return x
}

// TestOverview counts for the machine itself, a workload's namespace and another one, which must not
// see that there is more.
func TestOverview(t *testing.T) {
	a := newViewAPI(t)
	for caller, want := range map[string]Overview{
		"":      {Proxies: 2, Rejecting: 1, Errors: 1},
		"shop":  {Proxies: 1, Errors: 1},
		"bank":  {Proxies: 1, Rejecting: 1},
		"other": {},
	} {
		x := readView[OverviewAnswer](t, a, caller, "/overview").Overview
		if x.Proxies != want.Proxies || x.Rejecting != want.Rejecting || x.Behind != want.Behind || x.Errors != want.Errors || x.Warnings != 0 {
			t.Errorf("%q sees %+v", caller, x)
		}
	}
	if bank, other := readView[Overview](t, a, "bank", "/overview"), readView[Overview](t, a, "other", "/overview"); bank.Revision != other.Revision {
		t.Error("the revision differs by problems of other namespaces")
	}
}

func TestProblems(t *testing.T) {
	a := newViewAPI(t)
	list := readView[Problems](t, a, "shop", "/problems").Problems
	if len(list) != 1 || list[0].Field != "spec.htp" || list[0].Code != "IST0106" || list[0].Meaning == "" || list[0].Advice == "" {
		t.Errorf("the problems are %+v", list)
	}
	if list := readView[Problems](t, a, "bank", "/problems").Problems; len(list) != 0 {
		t.Errorf("bank sees %+v", list)
	}
}

func TestProxies(t *testing.T) {
	a := newViewAPI(t)
	list := readView[ProxyList](t, a, "", "/proxies").Proxies
	if len(list) != 2 || list[0].Proxy != "pay.bank" || list[0].State != ProxyError || list[0].Refused != "bad cluster" ||
		list[1].State != ProxySynced || list[1].Locality != "r/z" || list[1].Types["LDS"] != "SYNCED" {
		t.Errorf("the proxies are %+v", list)
	}
	if list := readView[ProxyList](t, a, "shop", "/proxies").Proxies; len(list) != 1 || list[0].Proxy != "web.shop" {
		t.Errorf("shop sees %+v", list)
	}
}

// TestProxyDetails reads the tables of a proxy. An object of a namespace that the caller may not
// read is not named.
func TestProxyDetails(t *testing.T) {
	a := newViewAPI(t)
	x := readView[ProxyDetails](t, a, "shop", "/proxies/web.shop")
	if c := x.Clusters; len(c) != 1 || c[0].Host != "reviews.shop.svc.cluster.local" || c[0].Subset != "v1" || c[0].Type != "EDS" ||
		len(c[0].From) != 1 || c[0].From[0].Name != "reviews" {
		t.Errorf("the clusters are %+v", c)
	}
	if l := x.Listeners; len(l) != 2 || l[0].Match != "server name a.example, transport tls" || l[1].Match != "all connections" || l[0].Address != "10.1.0.1:9080" {
		t.Errorf("the listeners are %+v", l)
	}
	if r := x.Routes; len(r) != 1 || r[0].Match != "path begins with /a" || !strings.HasPrefix(r[0].Action, "outbound|9080|v1|") || len(r[0].Domains) != maxDomains {
		t.Errorf("the routes are %+v", r)
	}
	if e := x.Endpoints; len(e) != 1 || e[0].Address != "10.1.0.1:9080" || e[0].Locality != "r/z" || e[0].Weight != 1 {
		t.Errorf("the endpoints are %+v", e)
	}
	if s := x.Secrets; x.Identity != "spiffe://cluster.local/ns/shop/sa/web" || len(s) != 1 || s[0] != (Source{"Secret", "shop", "cert"}) {
		t.Errorf("the identity is %s, the Secrets are %+v", x.Identity, s)
	}
	for caller, path := range map[string]string{"bank": "/proxies/web.shop", "shop": "/proxies/pay.bank", "": "/proxies/absent.shop"} {
		if w := get(a, caller, path); w.Code != http.StatusNotFound {
			t.Errorf("%q reads %s: %d", caller, path, w.Code)
		}
	}
}

func TestObjects(t *testing.T) {
	a := newViewAPI(t)
	list := readView[ObjectList](t, a, "shop", "/objects").Objects
	if len(list) != 1 || list[0].Name != "reviews" || list[0].Errors != 1 || list[0].Absent {
		t.Errorf("the objects are %+v", list)
	}
	if list := readView[ObjectList](t, a, "bank", "/objects").Objects; len(list) != 0 {
		t.Errorf("bank sees %+v", list)
	}
	if text := readView[ObjectAnswer](t, a, "shop", "/objects/VirtualService/reviews?namespace=shop").Manifest; !strings.Contains(text, "hosts:\n  - reviews\n") {
		t.Errorf("the manifest is %s", text)
	}
}

// TestExplain asks for calls that are answered with an error; test/integration/console explains real
// ones.
func TestExplain(t *testing.T) {
	a := newViewAPI(t)
	for _, c := range []struct {
		caller, query string
		want          int
	}{
		{"shop", "proxy=web.shop&url=http://reviews:9080/", http.StatusOK},
		{"bank", "proxy=web.shop&url=http://reviews:9080/", http.StatusNotFound},
		{"shop", "proxy=web.shop&url=nonsense", http.StatusBadRequest},
		{"shop", "url=http://reviews:9080/", http.StatusUnprocessableEntity},
		{"-", "proxy=web.shop&url=http://reviews:9080/", http.StatusUnauthorized},
	} {
		if w := get(a, c.caller, "/explain?"+c.query); w.Code != c.want {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
	}
}

// TestViewsOfPeers adds up the answers of replicas.
func TestViewsOfPeers(t *testing.T) {
	other := newViewAPI(t)
	other.Replica = "istiod-2"
	server := httptest.NewServer(other)
	t.Cleanup(server.Close)
	a := newViewAPI(t)
	a.Peers.Addresses = []string{host(server)}
	if x := readView[OverviewAnswer](t, a, "", "/overview"); len(x.Peers) != 1 || x.Peers[0].Replica != "istiod-2" || x.Peers[0].Proxies != 2 {
		t.Errorf("the overview is %+v", x)
	}
	if x := readView[ProxyList](t, a, "", "/proxies"); len(x.Proxies) != 4 || x.Proxies[1].Replica != "istiod-2" {
		t.Errorf("the proxies are %+v", x)
	}
	if x := readView[Problems](t, a, "", "/problems"); len(x.Problems) != 1 {
		t.Errorf("the problems are %+v", x)
	}
	a.Options.Pages = debug.New(debug.Options{Snapshot: a.Snapshot, Proxies: connections{}})
	if x := readView[ProxyDetails](t, a, "", "/proxies/web.shop"); x.Replica != "istiod-2" || len(x.Clusters) != 1 {
		t.Errorf("the proxy is %+v", x)
	}
}
