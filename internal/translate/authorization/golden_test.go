package authorization

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

const cases = "testdata/*.txtar"

// TestGolden runs every case. Inputs are the user's objects in config.yaml (and mesh.yaml) and the
// proxy in proxy.yaml. Outputs are the filters in "http" and "tcp" and the reported Problems in
// "problems".
func TestGolden(t *testing.T) {
	golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
		a := authorizationOf(t, c)
		var http, tcp, problems bytes.Buffer
		for _, f := range a.HTTP {
			write(t, &http, f)
		}
		for _, f := range a.TCP {
			write(t, &tcp, f)
		}
		for _, p := range a.Problems {
			fmt.Fprintf(&problems, "%s: %s\n", p.Severity, p)
		}
		c.Compare(t, "http", http.Bytes())
		if c.Has("tcp") {
			c.Compare(t, "tcp", tcp.Bytes())
		}
		c.Compare(t, "problems", problems.Bytes())
	})
}

func authorizationOf(t testing.TB, c *golden.Case) *Authorization {
	t.Helper()
	return NewTable().For(fixture.OfCase(t, c).View(fixture.Proxy(t, c.Input("proxy.yaml"))))
}

func write(t testing.TB, b *bytes.Buffer, m proto.Message) {
	t.Helper()
	text, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.JSONToYAML(text); err != nil {
		t.Fatal(err)
	}
	b.WriteString("---\n")
	b.Write(text)
}

// TestEnvoyAcceptsAllCases loads the filters of every case into Envoy, all at once.
func TestEnvoyAcceptsAllCases(t *testing.T) {
	envoy.RequireBinary(t)
	var all envoy.Config
	golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
		c.AllowUnread()
		a := authorizationOf(t, c)
		all.Listeners = append(all.Listeners, listenerWith(t, len(all.Listeners), a))
		for _, name := range a.Clusters {
			all.Clusters = slices.DeleteFunc(
				all.Clusters,
				func(o *clusterv3.Cluster) bool { return o.GetName() == name },
			)
			all.Clusters = append(all.Clusters, &clusterv3.Cluster{Name: name})
		}
	})
	envoy.Validate(t, all)
}

// listenerWith is a listener that has the filters in both of its chains.
func listenerWith(t testing.TB, n int, a *Authorization) *listenerv3.Listener {
	t.Helper()
	router := &hcmv3.HttpFilter{
		Name:       "router",
		ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: resource.Pack(new(routerv3.Router))},
	}
	http := &hcmv3.HttpConnectionManager{StatPrefix: "x", HttpFilters: append(a.HTTP[:len(a.HTTP):len(a.HTTP)], router),
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: new(routev3.RouteConfiguration)}}
	tcp := &tcpv3.TcpProxy{StatPrefix: "x", ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: "x"}}
	filter := func(name string, m proto.Message) *listenerv3.Filter {
		return &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: resource.Pack(m)}}
	}
	return &listenerv3.Listener{
		Name: fmt.Sprint(n), Address: listenAddress(fmt.Sprintf("127.1.%d.%d", n/256, n%256)),
		FilterChains: []*listenerv3.FilterChain{{
			FilterChainMatch: &listenerv3.FilterChainMatch{ApplicationProtocols: []string{"http/1.1"}},
			Filters:          []*listenerv3.Filter{filter("hcm", http)},
		}},
		DefaultFilterChain: &listenerv3.FilterChain{Filters: append(a.TCP[:len(a.TCP):len(a.TCP)], filter("tcp", tcp))},
	}
}

func listenAddress(ip string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: ip, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80},
	}}}
}
