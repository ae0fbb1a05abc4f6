package compare

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// pack returns m in an Any.
func pack(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	packed, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// listenerWith returns the resources of a proxy with one listener, which has a filter for a server
// name, and an extension of the same name.
func listenerWith(t *testing.T, filter *listenerv3.Filter, extension *anypb.Any) *explain.Resources {
	t.Helper()
	l := &listenerv3.Listener{
		Name: "10.0.0.1_443",
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: "10.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 443},
		}}},
		FilterChains: []*listenerv3.FilterChain{{
			FilterChainMatch: &listenerv3.FilterChainMatch{ServerNames: []string{"b.example.com", "a.example.com"}},
			Filters:          []*listenerv3.Filter{filter},
		}},
	}
	return &explain.Resources{
		Listeners: []*resource.Resource{resource.FromBytes(l.GetName(), api.ListenerType, pack(t, l).GetValue())},
		Named: func(typeURL, name string) *resource.Resource {
			if extension == nil || typeURL != api.ExtensionType || name != filter.GetName() {
				return nil
			}
			x := &corev3.TypedExtensionConfig{Name: name, TypedConfig: extension}
			return resource.FromBytes(name, typeURL, pack(t, x).GetValue())
		},
	}
}

// TestConnections compares a TCP route in a listener with the same one in an extension, and with
// another one.
func TestConnections(t *testing.T) {
	weighted := func(v1, v2 uint32) *anypb.Any {
		return pack(t, &tcpproxyv3.TcpProxy{ClusterSpecifier: &tcpproxyv3.TcpProxy_WeightedClusters{
			WeightedClusters: &tcpproxyv3.TcpProxy_WeightedCluster{Clusters: []*tcpproxyv3.TcpProxy_WeightedCluster_ClusterWeight{
				{Name: "v1", Weight: v1}, {Name: "v2", Weight: v2},
			}},
		}})
	}
	inside := &listenerv3.Filter{Name: "tcp", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: weighted(40, 60)}}
	discovered := &listenerv3.Filter{Name: "chain", ConfigType: &listenerv3.Filter_ConfigDiscovery{ConfigDiscovery: &corev3.ExtensionConfigSource{}}}
	var r Report
	r.Add(Proxy{Name: "same", From: listenerWith(t, inside, nil), To: listenerWith(t, discovered, weighted(40, 60))})
	r.Add(Proxy{Name: "other", From: listenerWith(t, inside, nil), To: listenerWith(t, discovered, weighted(50, 50))})
	r.Add(Proxy{Name: "missing", From: listenerWith(t, inside, nil), To: listenerWith(t, discovered, nil)})
	const want = `other:
  ~ listener 10.0.0.1:443, TCP for a.example.com b.example.com: v1=40 v2=60 -> v1=50 v2=50

missing:
  - listener 10.0.0.1:443, TCP for a.example.com b.example.com: v1=40 v2=60

2 of 3 proxies differ; 9 facts compared
`
	if diff := cmp.Diff(want, r.Text()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}
