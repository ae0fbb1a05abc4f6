package wire_test

import (
	"errors"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/test/perf/wire"
)

func marshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func packed(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The messages here are encoded by the real protobuf types, with which the hand-written readers are
// compared.
func TestParseResource(t *testing.T) {
	discovery := &corev3.ExtensionConfigSource{TypeUrls: []string{"type.googleapis.com/any"}}
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix:     "x",
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: "80"}},
		HttpFilters: []*hcmv3.HttpFilter{
			{Name: "policies", ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: discovery}},
			{Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(t, new(corev3.Node))}},
		},
	}
	discovered := &listenerv3.Filter{Name: "tcp", ConfigType: &listenerv3.Filter_ConfigDiscovery{ConfigDiscovery: discovery}}
	filter := &listenerv3.Filter{Name: "hcm", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(t, manager)}}
	for name, c := range map[string]struct {
		typ  wire.Type
		body proto.Message
		want wire.Resource
	}{
		"cluster with EDS": {wire.CDS, &clusterv3.Cluster{
			Name: "c", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
			EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: "e"},
		}, wire.Resource{Name: "c", Endpoints: "e"}},
		"cluster with EDS of its own name": {wire.CDS, &clusterv3.Cluster{
			Name: "c", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		}, wire.Resource{Name: "c", Endpoints: "c"}},
		"cluster without": {wire.CDS, &clusterv3.Cluster{
			Name: "c", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST},
		}, wire.Resource{Name: "c"}},
		"endpoints": {wire.EDS, &endpointv3.ClusterLoadAssignment{ClusterName: "e"}, wire.Resource{Name: "e"}},
		"listener": {wire.LDS, &listenerv3.Listener{
			Name: "l", FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{filter}}},
			DefaultFilterChain: &listenerv3.FilterChain{Filters: []*listenerv3.Filter{discovered, filter}},
		}, wire.Resource{Name: "l", Routes: []string{"80", "80"}, Extensions: []string{"policies", "tcp"}}},
		"extension": {wire.ECDS, &corev3.TypedExtensionConfig{Name: "policies"}, wire.Resource{Name: "policies"}},
		"routes":    {wire.RDS, &routev3.RouteConfiguration{Name: "80"}, wire.Resource{Name: "80"}},
	} {
		got, err := wire.ParseResource(c.typ, marshal(t, c.body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(&c.want, got, cmpopts.IgnoreFields(wire.Resource{}, "Sum")); d != "" {
			t.Errorf("%s: (-want +got)\n%s", name, d)
		}
	}
	if _, err := wire.ParseResource(wire.CDS, []byte{0x0a, 0xff}); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("bytes that are no message: %v", err)
	}
}

func TestSumIgnoresOrder(t *testing.T) {
	sum := func(fields ...string) uint64 {
		var b []byte
		for _, f := range fields {
			b = wire.AppendBytes(b, 25, wire.AppendString(nil, 1, f))
		}
		r, err := wire.ParseResource(wire.CDS, b)
		if err != nil {
			t.Fatal(err)
		}
		return r.Sum
	}
	if sum("a", "b") != sum("b", "a") || sum("a", "b") == sum("a", "c") {
		t.Error("the sum must depend on the content and not on its order")
	}
}

func TestResponse(t *testing.T) {
	body := &clusterv3.Cluster{Name: "c"}
	var r wire.Response
	delta := marshal(t, &discoveryv3.DeltaDiscoveryResponse{
		SystemVersionInfo: "v", TypeUrl: wire.CDS.URL(), Nonce: "n", RemovedResources: []string{"gone"},
		Resources: []*discoveryv3.Resource{{Name: "c", Version: "1", Resource: packed(t, body)}},
	})
	want := wire.Response{
		TypeURL: []byte(wire.CDS.URL()), Version: []byte("v"), Nonce: []byte("n"), Removed: [][]byte{[]byte("gone")},
		Resources: []wire.Entry{{Version: []byte("1"), Body: marshal(t, body)}},
	}
	if err := r.Parse(delta, true); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, r); d != "" {
		t.Errorf("delta (-want +got)\n%s", d)
	}
	sotw := marshal(t, &discoveryv3.DiscoveryResponse{
		VersionInfo: "v", TypeUrl: wire.CDS.URL(), Nonce: "n", Resources: []*anypb.Any{packed(t, body)},
	})
	want.Removed, want.Resources = nil, []wire.Entry{{Body: marshal(t, body)}}
	if err := r.Parse(sotw, false); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, r, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("SotW (-want +got)\n%s", d)
	}
}

func TestCheck(t *testing.T) {
	good := &clusterv3.Cluster{Name: "c"}
	if err := wire.CheckResource(wire.CDS, marshal(t, good)); err != nil {
		t.Error(err)
	}
	if wire.CheckResource(wire.CDS, marshal(t, &clusterv3.Cluster{})) == nil {
		t.Error("a cluster without a name passed")
	}
	if wire.CheckResource(wire.LDS, []byte{0x0a, 0xff}) == nil {
		t.Error("bytes that are no message passed")
	}
}

func TestTypes(t *testing.T) {
	for typ := range wire.NumTypes {
		if got := wire.TypeOf([]byte(typ.URL())); got != typ {
			t.Errorf("TypeOf the URL of %v = %v", typ, got)
		}
	}
	if got := wire.TypeOf([]byte("type.googleapis.com/else")); got != wire.NumTypes {
		t.Errorf("TypeOf an unknown URL = %v", got)
	}
}
