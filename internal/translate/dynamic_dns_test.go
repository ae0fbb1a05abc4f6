package translate

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestDynamicDNSReachesTheNamedHost sends requests and TLS connections for names below
// "*.localhost", which Envoy's resolver resolves to this machine (RFC 6761, section 6.3), through
// the resources that are generated for a wildcard host of resolution DYNAMIC_DNS.
func TestDynamicDNSReachesTheNamedHost(t *testing.T) {
	envoy.RequireBinary(t)
	says := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s asks", r.Host) })
	plain, secure := httptest.NewServer(says), httptest.NewTLSServer(says)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	v := fixture.New(t, fmt.Appendf(nil, `
kind: ServiceEntry
metadata: {name: wild}
spec:
  hosts: ["*.localhost"]
  resolution: DYNAMIC_DNS
  ports: [{number: %s, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS, targetPort: %s}]
`, portOf(plain), portOf(secure)), nil).View(fixture.Proxy(t, []byte("{}")))
	dir := runStatic(t, v, "0.0.0.0_"+portOf(plain), "0.0.0.0_443")

	for _, c := range []struct{ url, listener string }{
		{"http://a.localhost:" + portOf(plain), "0.0.0.0_" + portOf(plain)},
		{"http://b.c.localhost:" + portOf(plain), "0.0.0.0_" + portOf(plain)},
		{"https://a.localhost", "0.0.0.0_443"},
	} {
		client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				return net.Dial("unix", filepath.Join(dir, c.listener))
			},
			TLSClientConfig: &tls.Config{
				InsecureSkipVerify: true,
			}, //nolint:gosec // whose certificate it is does not matter here
		}}
		r, err := client.Get(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		_, host, _ := strings.Cut(c.url, "://")
		if want := host + " asks"; r.StatusCode != http.StatusOK || string(body) != want {
			t.Errorf("%s: %s, %q, want %q", c.url, r.Status, body, want)
		}
	}
}

func portOf(s *httptest.Server) string {
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	return port
}

// runStatic runs Envoy with all clusters of a View and some of its listeners, each at a socket of
// its name in the returned folder.
func runStatic(t *testing.T, v *view.View, listeners ...string) string {
	t.Helper()
	dir := envoy.SocketDir(t)
	b := &bootstrapv3.Bootstrap{StaticResources: new(bootstrapv3.Bootstrap_StaticResources)}
	table := NewTable(Options{})
	for i := range table.Generators {
		g := &table.Generators[i]
		if g.All == nil {
			continue
		}
		scoped := v // as for proxies: generated for all proxies with the same scope of the Key
		if g.Scope != nil {
			scoped = view.Build(v.Snapshot, g.Scope(v.Key))
		}
		for _, r := range g.All(scoped) {
			switch r.TypeURL {
			case api.ClusterType:
				b.StaticResources.Clusters = append(
					b.StaticResources.Clusters,
					unmarshal(t, r.Body, new(clusterv3.Cluster)),
				)
			case api.ListenerType:
				for _, name := range listeners {
					if r.Name == name {
						l := unmarshal(t, r.Body, new(listenerv3.Listener))
						b.StaticResources.Listeners = append(
							b.StaticResources.Listeners,
							atSocket(t, l, filepath.Join(dir, name), table, v),
						)
					}
				}
			}
		}
	}
	sockets := make([]string, 0, len(listeners))
	for _, name := range listeners {
		sockets = append(sockets, filepath.Join(dir, name))
	}
	envoy.Start(t, envoy.Options{Bootstrap: envoy.Text(t, b), Ready: envoy.Listening("unix", sockets...)})
	return dir
}

// atSocket puts a listener at a socket, with its routes inside of it.
func atSocket(t *testing.T, l *listenerv3.Listener, path string, table *Table, v *view.View) *listenerv3.Listener {
	t.Helper()
	l.Address = &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
	l.BindToPort = wrapperspb.Bool(true)
	for _, c := range l.FilterChains {
		for _, f := range c.Filters {
			m := new(hcmv3.HttpConnectionManager)
			if f.GetTypedConfig().UnmarshalTo(m) != nil || m.GetRds() == nil {
				continue
			}
			for i := range table.Generators {
				g := &table.Generators[i]
				if g.TypeURL != api.RouteType {
					continue
				}
				if r := g.Named(v, m.GetRds().GetRouteConfigName()); r != nil {
					routes := unmarshal(t, r.Body, new(routev3.RouteConfiguration))
					m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: routes}
				}
			}
			packed, err := anypb.New(m)
			if err != nil {
				t.Fatal(err)
			}
			f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: packed}
		}
	}
	return l
}

func unmarshal[M proto.Message](t *testing.T, body []byte, m M) M {
	t.Helper()
	if err := proto.Unmarshal(body, m); err != nil {
		t.Fatal(err)
	}
	return m
}
