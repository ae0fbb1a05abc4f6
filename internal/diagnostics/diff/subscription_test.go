package diff_test

import (
	"maps"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// subscribe requests the names that the proxy's clusters and listeners refer to, and drops the
// others.
func (x *proxy) subscribe() {
	wanted := map[string]map[string]bool{
		api.EndpointType: {}, api.RouteType: {}, api.ExtensionType: {}, api.SecretType: {},
	}
	for _, body := range x.held[api.ClusterType] {
		c := new(clusterv3.Cluster)
		x.decode(body, c)
		if c.GetType() == clusterv3.Cluster_EDS {
			wanted[api.EndpointType][c.GetName()] = true
		}
	}
	for _, body := range x.held[api.ListenerType] {
		l := new(listenerv3.Listener)
		x.decode(body, l)
		for _, chain := range append(slices.Clone(l.GetFilterChains()), l.GetDefaultFilterChain()) {
			x.wantChain(chain, wanted)
		}
	}
	for _, typeURL := range slices.Sorted(maps.Keys(wanted)) {
		x.request(typeURL, wanted[typeURL])
	}
}

// wantChain adds the routes, extensions and secrets of a filter chain. Secrets of the agent are not
// requested here.
func (x *proxy) wantChain(chain *listenerv3.FilterChain, wanted map[string]map[string]bool) {
	if t := chain.GetTransportSocket().GetTypedConfig(); t.MessageIs(new(tlsv3.DownstreamTlsContext)) {
		tls := new(tlsv3.DownstreamTlsContext)
		x.decode(string(t.GetValue()), tls)
		for _, s := range tls.GetCommonTlsContext().GetTlsCertificateSdsSecretConfigs() {
			if s.GetSdsConfig().GetAds() != nil {
				wanted[api.SecretType][s.GetName()] = true
			}
		}
	}
	for _, f := range chain.GetFilters() {
		if f.GetConfigDiscovery() != nil {
			wanted[api.ExtensionType][f.GetName()] = true
		}
		m := new(hcmv3.HttpConnectionManager)
		if !f.GetTypedConfig().MessageIs(m) {
			continue
		}
		x.decode(string(f.GetTypedConfig().GetValue()), m)
		if name := m.GetRds().GetRouteConfigName(); name != "" {
			wanted[api.RouteType][name] = true
		}
		for _, h := range m.GetHttpFilters() {
			if h.GetConfigDiscovery() != nil {
				wanted[api.ExtensionType][h.GetName()] = true
			}
		}
	}
}

func (x *proxy) decode(body string, m proto.Message) {
	if err := proto.Unmarshal([]byte(body), m); err != nil {
		x.t.Fatal(err)
	}
}

// request changes the subscription of a type, if it differs. Resources that are no longer subscribed
// are dropped.
func (x *proxy) request(typeURL string, names map[string]bool) {
	before := x.subscribed[typeURL]
	r := stream.Request{TypeURL: typeURL}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !before[name] {
			r.Subscribe = append(r.Subscribe, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if !names[name] {
			r.Unsubscribe = append(r.Unsubscribe, name)
			delete(x.held[typeURL], name)
		}
	}
	if len(r.Subscribe)+len(r.Unsubscribe) == 0 {
		return
	}
	x.subscribed[typeURL] = names
	x.c.Request(r)
}
