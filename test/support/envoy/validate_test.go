package envoy

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestValidate(t *testing.T) {
	binary := RequireBinary(t)
	for _, tc := range []struct {
		name   string
		config Config
		want   string // part of Envoy's complaint; "" if it must be content
	}{
		{"nothing", Config{}, ""},
		{"EDS over ADS", Config{Clusters: []*clusterv3.Cluster{edsCluster("a")}}, ""},
		{"cluster twice", Config{Clusters: []*clusterv3.Cluster{edsCluster("a"), edsCluster("a")}}, "duplicate"},
		{"assignment in its cluster", Config{Clusters: []*clusterv3.Cluster{edsCluster("a")}, Endpoints: []*endpointv3.ClusterLoadAssignment{assignment("a", "10.0.0.1")}}, ""},
		{"assignment with a name for an IP", Config{Clusters: []*clusterv3.Cluster{edsCluster("a")}, Endpoints: []*endpointv3.ClusterLoadAssignment{assignment("a", "example.com")}}, "malformed IP"},
		{"assignment without cluster", Config{Endpoints: []*endpointv3.ClusterLoadAssignment{assignment("a", "example.com")}}, "malformed IP"},
		{"routes to unknown clusters", Config{Routes: []*routev3.RouteConfiguration{routes("^/a"), routes("^/b")}}, ""},
		{"bad regular expression", Config{Routes: []*routev3.RouteConfiguration{routes("(")}}, "missing )"},
		{"certificate files that are not there", Config{Clusters: []*clusterv3.Cluster{tlsCluster(t)}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := tc.config.Bootstrap()
			if err != nil {
				t.Fatal(err)
			}
			err = loadConfig(t.Context(), binary, t.TempDir(), b)
			if tc.want == "" && err != nil {
				t.Errorf("refused: %v", err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want a complaint with %q", err, tc.want)
			}
		})
	}
}

func TestBinaryFromEnvironment(t *testing.T) {
	t.Setenv("ENVOY", t.TempDir())
	if path, err := FindBinary(); err == nil {
		t.Errorf("a directory was accepted as the binary: %s", path)
	}
}

func edsCluster(name string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: name, EdsConfig: &corev3.ConfigSource{
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
			ResourceApiVersion:    corev3.ApiVersion_V3,
		}},
	}
}

func assignment(cluster, address string) *endpointv3.ClusterLoadAssignment {
	return &endpointv3.ClusterLoadAssignment{ClusterName: cluster, Endpoints: []*endpointv3.LocalityLbEndpoints{{
		LoadBalancingWeight: wrapperspb.UInt32(1),
		LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
			Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80},
			}}},
		}}}},
	}}}
}

func routes(regex string) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{Name: "h", Domains: []string{"*"}, Routes: []*routev3.Route{{
		Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: "/"}, Headers: []*routev3.HeaderMatcher{{Name: "x", HeaderMatchSpecifier: &routev3.HeaderMatcher_SafeRegexMatch{SafeRegexMatch: safeRegex(regex)}}}}, //nolint:staticcheck // it is the older field that Envoy must still load
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "nowhere"}}},
	}}}}}
}

func tlsCluster(t *testing.T) *clusterv3.Cluster {
	file := func(path string) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
	}
	packed, err := anypb.New(&tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsCertificates:       []*tlsv3.TlsCertificate{{CertificateChain: file("/nowhere/cert"), PrivateKey: file("/nowhere/key")}},
		ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: file("/nowhere/ca")}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := edsCluster("tls")
	c.TransportSocket = &corev3.TransportSocket{Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed}}
	return c
}

func safeRegex(expression string) *matcherv3.RegexMatcher {
	return &matcherv3.RegexMatcher{Regex: expression}
}
