package debug

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// fleet is a set of proxies as the Pusher would report them.
type fleet struct {
	list  []push.Connection
	nacks []push.Nack
	kept  []push.Quarantined
	// states are the states of resources by name.
	states map[string]stream.Delivery
	// snapshot returns the snapshot of ViewKeys.
	snapshot func() *snapshot.Snapshot
}

func (f fleet) Connections() []push.Connection {
	return append([]push.Connection(nil), f.list...)
}
func (f fleet) StreamStates() (list []push.StreamState) {
	for _, c := range f.list {
		list = append(list, push.StreamState{
			ID: c.ID, Proxy: c.Proxy, ConnectedAt: c.ConnectedAt,
			InvalidMetadata: snapshot.InvalidMetadataOf(&c.Proxy.Metadata),
		})
	}
	return list
}
func (f fleet) Connection(id string) (push.Connection, bool) {
	i := slices.IndexFunc(f.list, func(c push.Connection) bool { return c.ID == id })
	if i < 0 {
		return push.Connection{}, false
	}
	return f.list[i], true
}

// ViewKeys returns the Keys for f.snapshot.
func (f fleet) ViewKeys() (list []view.Key) {
	for _, c := range f.list {
		list = append(list, view.KeyFor(f.snapshot(), c.Proxy))
	}
	return list
}
func (f fleet) Nacks() []push.Nack             { return f.nacks }
func (f fleet) Quarantine() []push.Quarantined { return f.kept }

// Deliveries are those of f.states, by name; resources without a state are acknowledged.
func (f fleet) Deliveries(_ string, list []*resource.Resource) []stream.Delivery {
	states := make([]stream.Delivery, len(list))
	for i, r := range list {
		states[i] = stream.Acknowledged
		if s, ok := f.states[r.Name]; ok {
			states[i] = s
		}
	}
	return states
}

func at(minute int) time.Time { return time.Date(2026, 11, 1, 12, minute, 0, 0, time.UTC) }

func encode(t testing.TB, name, typeURL string, m proto.Message, from ...config.Key) *resource.Resource {
	t.Helper()
	r, err := resource.Encode(name, typeURL, m, from...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func watchOf(typeURL, sent, acked string, list ...*resource.Resource) push.Watch {
	set, err := resource.NewSet(list)
	if err != nil {
		panic(err)
	}
	w := push.Watch{TypeState: stream.TypeState{
		TypeURL:      typeURL,
		Wildcard:     true,
		SentNonce:    sent,
		SentVersion:  "v" + sent,
		AckedNonce:   acked,
		AckedVersion: "v" + acked,
	}, Groups: []*stream.ResourceGroup{stream.NewResourceGroup(set)}}
	if sent != "" {
		w.SentAt = at(3)
	}
	return w
}

func proxy(name, namespace, ip string) *mesh.Proxy {
	return &mesh.Proxy{
		ID:        "sidecar~" + ip + "~" + name + "." + namespace + "~" + namespace + ".svc.cluster.local",
		Type:      mesh.SidecarProxy,
		Name:      name,
		Namespace: namespace,
		DNSDomain: namespace + ".svc.cluster.local",
		ClusterID: "Kubernetes",
		Addresses: []netip.Addr{netip.MustParseAddr(ip)},
		Labels:    map[string]string{"app": "web"},
		Locality: mesh.Locality{
			Region: "r1",
			Zone:   "z1",
		},
		Metadata: mesh.NodeMetadata{IstioVersion: "1.31.0", Namespace: namespace},
	}
}

// twoProxies: web-1 has acknowledged everything. pay-1, of another namespace and at an address
// without a workload, refused a cluster, has not answered for its listeners, and requested routes
// that it was not sent.
func twoProxies(t testing.TB) fleet {
	t.Helper()
	rule := config.Key{Kind: api.DestinationRule, Namespace: "shop", Name: "web"}
	cluster := encode(
		t,
		"outbound|80||web.shop.svc.cluster.local",
		api.ClusterType,
		&clusterv3.Cluster{Name: "outbound|80||web.shop.svc.cluster.local"},
		rule,
	)
	endpoints := encode(
		t,
		"outbound|80||web.shop.svc.cluster.local",
		api.EndpointType,
		&endpointv3.ClusterLoadAssignment{ClusterName: "outbound|80||web.shop.svc.cluster.local"},
	)
	listener := encode(t, "0.0.0.0_80", api.ListenerType, &listenerv3.Listener{Name: "0.0.0.0_80"})
	route := encode(t, "80", api.RouteType, &routev3.RouteConfiguration{Name: "80"})
	secret := encode(
		t,
		"default",
		api.SecretType,
		&tlsv3.Secret{Name: "default", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: inline("certificate"), PrivateKey: inline("top secret"),
		}}},
	)
	refused := watchOf(api.ClusterType, "7", "3", cluster)
	refused.Message = "bad cluster"
	eds := watchOf(api.EndpointType, "2", "2", endpoints)
	eds.Names = []string{endpoints.Name}
	names := resource.FromBytes(
		"",
		api.NameTableType,
		mesh.AppendName(nil, "web.shop.svc.cluster.local", mesh.NameEntry{
			IPs: []string{"10.96.0.1"}, Registry: mesh.Kubernetes, ShortName: "web", Namespace: "shop",
		}),
	)
	filter := config.Key{Kind: api.EnvoyFilter, Namespace: "shop", Name: "compress"}
	web, pay := proxy("web-1", "shop", "10.1.0.1"), proxy("pay-1", "bank", "10.9.9.9")
	return fleet{
		list: []push.Connection{
			{ID: pay.ID + "-2", Proxy: pay, Peer: "10.9.9.9:4711", ConnectedAt: at(2), Types: []push.Watch{
				refused, watchOf(api.ListenerType, "8", ""), watchOf(api.RouteType, "", ""),
			}},
			{ID: web.ID + "-1", Proxy: web, Peer: "10.1.0.1:4711", ConnectedAt: at(1), Types: []push.Watch{
				watchOf(
					api.ClusterType,
					"1",
					"1",
					cluster,
				),
				eds,
				watchOf(api.ListenerType, "3", "3", listener),
				watchOf(api.RouteType, "4", "4", route),
				watchOf(api.SecretType, "5", "5", secret),
				watchOf(api.NameTableType, "6", "6", names),
			}},
		},
		kept: []push.Quarantined{
			{
				TypeURL:  api.ClusterType,
				Name:     cluster.Name,
				Version:  cluster.Version,
				Message:  "bad cluster",
				Since:    at(4),
				Replaced: true,
				From:     cluster.From,
				Witnesses: []string{
					"spiffe://cluster.local/ns/bank/sa/pay",
					"spiffe://cluster.local/ns/shop/sa/web",
				},
				Connections: 2,
				Attempt:     2,
				Until:       at(6),
				Affected:    []string{web.ID + "-1"},
			},
			{
				TypeURL:     api.ListenerType,
				Name:        "0.0.0.0_80",
				Version:     "2",
				Message:     "no such compressor",
				Since:       at(1),
				Replaced:    true,
				Connections: 1,
				Suspended:   filter,
				From:        []config.Key{filter},
				Witnesses:   []string{"spiffe://cluster.local/ns/shop/sa/web"},
				Attempt:     1,
				Until:       at(2),
				Affected:    []string{web.ID + "-1"},
			},
			{TypeURL: api.ListenerType, Name: "0.0.0.0_81", Version: "1", Message: "refused long ago", Since: at(0)},
		},
		nacks: []push.Nack{
			{
				Time:       at(5),
				Connection: pay.ID + "-2",
				Proxy:      pay,
				TypeURL:    api.ClusterType,
				Message:    "bad cluster",
				Standing:   true,
				Resources:  []push.Refused{{Name: cluster.Name, Version: cluster.Version, From: cluster.From}},
			},
			{Time: at(4), Connection: web.ID + "-1", Proxy: web, TypeURL: api.ClusterType, Message: "bad cluster",
				Resources: []push.Refused{{Name: cluster.Name, Version: cluster.Version, From: cluster.From}}},
			{Time: at(3), Connection: web.ID + "-1", Proxy: web, TypeURL: api.RouteType, Message: "no names in here"},
		},
	}
}

func inline(s string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: s}}
}

func pagesOf(t testing.TB, m *fixture.Mesh, f fleet) *Pages {
	t.Helper()
	f.snapshot = m.Snapshot
	return New(Options{
		Snapshot: m.Snapshot, Proxies: f, Cluster: "Kubernetes", Push: func() {}, Profile: true,
		Conflicts: func(*snapshot.Snapshot, []view.Key) []config.Problem {
			return []config.Problem{
				{
					Key:      config.Key{Kind: api.Service, Namespace: "shop", Name: "taken"},
					Reason:   "the port is taken",
					Severity: config.Warning,
				},
			}
		},
		Scopes: func() []obs.Scope { return []obs.Scope{{Name: "ads", OutputLevel: "info", StackTraceLevel: "none"}} },
		Access: Access{SystemNamespaces: []string{"istio-system"}},
	})
}

// TestPages compares pages with goldens: a section's name is the page and its query.
func TestPages(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, c *golden.Case) {
		p := pagesOf(t, fixture.OfCase(t, c), twoProxies(t))
		for _, resource := range c.Sections() {
			if strings.HasSuffix(resource, ".yaml") {
				continue
			}
			separator := "?"
			if strings.Contains(resource, "?") {
				separator = "&"
			}
			body, err := p.Page(resource+separator+"pretty", Caller{})
			if err != nil {
				t.Errorf("%s: %v", resource, err)
				continue
			}
			c.Compare(t, resource, append(body, '\n'))
		}
	})
}
