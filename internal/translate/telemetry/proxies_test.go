package telemetry_test

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	agentenvoy "github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/agent/node"
	"github.com/meshpilot/meshpilot/internal/agent/status"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// proxy is a real Envoy with the resources that are generated for a View, except for how it accepts
// connections.
type proxy struct {
	admin netip.AddrPort
	dir   string // its log files are here
	kill  func()
}

// generated is all that a View's proxies are sent, decoded.
type generated struct {
	clusters  map[string]*clusterv3.Cluster
	listeners map[string]*listenerv3.Listener
	view      *view.View
	table     *translate.Table
}

func generate(t *testing.T, v *view.View) *generated {
	t.Helper()
	g := &generated{
		clusters:  map[string]*clusterv3.Cluster{},
		listeners: map[string]*listenerv3.Listener{},
		view:      v,
		table:     translate.NewTable(translate.Options{}),
	}
	for i := range g.table.Generators {
		all := g.table.Generators[i].All
		if all == nil {
			continue
		}
		for _, r := range all(v) {
			switch m := decode(t, r).(type) {
			case *clusterv3.Cluster:
				g.clusters[r.Name] = m
			case *listenerv3.Listener:
				g.listeners[r.Name] = m
			}
		}
	}
	for name, c := range g.clusters { // endpoints in place of EDS
		if c.GetEdsClusterConfig() == nil {
			continue
		}
		c.ClusterDiscoveryType, c.EdsClusterConfig = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}, nil
		c.LoadAssignment = &endpointv3.ClusterLoadAssignment{ClusterName: name}
		if m, ok := g.named(t, api.EndpointType, name).(*endpointv3.ClusterLoadAssignment); ok {
			c.LoadAssignment = m
		}
	}
	return g
}

func decode(t *testing.T, r *resource.Resource) proto.Message {
	t.Helper()
	m, err := (&anypb.Any{TypeUrl: r.TypeURL, Value: r.Body}).UnmarshalNew()
	if err != nil {
		return nil // of a type that no Envoy has
	}
	return m
}

func (g *generated) named(t *testing.T, typeURL, name string) proto.Message {
	t.Helper()
	for i := range g.table.Generators {
		if x := &g.table.Generators[i]; x.TypeURL == typeURL && x.Named != nil {
			if r := x.Named(g.view, name); r != nil {
				return decode(t, r)
			}
		}
	}
	return nil
}

// chain returns a filter chain of a listener as a listener of its own at an address: the first that
// is chosen.
func (g *generated) chain(
	t *testing.T,
	listener, at string,
	chosen func(*listenerv3.FilterChain) bool,
) *listenerv3.Listener {
	t.Helper()
	l := g.listeners[listener]
	for _, c := range append(l.GetFilterChains(), l.GetDefaultFilterChain()) {
		if c == nil || !chosen(c) {
			continue
		}
		c = proto.CloneOf(c)
		c.FilterChainMatch = nil
		for _, f := range c.GetFilters() {
			g.inPlace(t, f)
		}
		return &listenerv3.Listener{
			Name:             listener + at,
			Address:          addressOf(at),
			FilterChains:     []*listenerv3.FilterChain{c},
			TrafficDirection: l.GetTrafficDirection(),
		}
	}
	t.Fatalf("listener %q has no such chain: %v", listener, l)
	return nil
}

// inPlace inlines the resources that proxies would request.
func (g *generated) inPlace(t *testing.T, f *listenerv3.Filter) {
	t.Helper()
	if f.GetConfigDiscovery() != nil {
		e, _ := g.named(t, api.ExtensionType, f.GetName()).(*corev3.TypedExtensionConfig)
		f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: e.GetTypedConfig()}
	}
	m := new(hcmv3.HttpConnectionManager)
	if f.GetTypedConfig().UnmarshalTo(m) != nil {
		return
	}
	for _, h := range m.GetHttpFilters() {
		if h.GetConfigDiscovery() != nil {
			e, _ := g.named(t, api.ExtensionType, h.GetName()).(*corev3.TypedExtensionConfig)
			h.ConfigType = &hcmv3.HttpFilter_TypedConfig{TypedConfig: e.GetTypedConfig()}
		}
	}
	if m.GetRds() != nil {
		routes, _ := g.named(t, api.RouteType, m.GetRds().GetRouteConfigName()).(*routev3.RouteConfiguration)
		routes.ValidateClusters = nil
		m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: routes}
	}
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: a}
}

func addressOf(at string) *corev3.Address {
	a := netip.MustParseAddrPort(at)
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: a.Addr().String(), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(a.Port())},
	}}}
}

// start runs Envoy with the clusters of a View and some listeners.
func (g *generated) start(t *testing.T, environ []string, listeners ...*listenerv3.Listener) *proxy {
	t.Helper()
	p := &proxy{dir: t.TempDir(), admin: netip.MustParseAddrPort(serving.FreeAddress(t))}
	b := &bootstrapv3.Bootstrap{
		Node:               &corev3.Node{Id: "test", Cluster: "cluster-of-node"},
		Admin:              &bootstrapv3.Admin{Address: addressOf(p.admin.String())},
		StatsFlushInterval: durationpb.New(100 * time.Millisecond),
		LayeredRuntime:     soon(t),
		StaticResources:    &bootstrapv3.Bootstrap_StaticResources{Listeners: listeners},
	}
	for _, c := range g.clusters {
		b.StaticResources.Clusters = append(b.StaticResources.Clusters, c)
	}
	p.kill = envoy.Start(t, envoy.Options{
		Bootstrap: bytes.ReplaceAll(envoy.Text(t, b), []byte("/LOGS/"), []byte(p.dir+"/")),
		Args:      []string{"--file-flush-interval-msec", "20"}, Env: environ, Ready: envoy.Live(p.admin.String()),
	}).Kill
	return p
}

// soon configures tracers to send spans at once rather than every five seconds.
func soon(t *testing.T) *bootstrapv3.LayeredRuntime {
	t.Helper()
	values, err := structpb.NewStruct(map[string]any{
		"tracing.zipkin.flush_interval_ms":        100,
		"tracing.opentelemetry.flush_interval_ms": 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{{
		Name: "static", LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: values},
	}}}
}

// metrics scrapes as Prometheus does: from the agent.
func (p *proxy) metrics(t *testing.T, w node.Node) string {
	t.Helper()
	a := agentenvoy.NewAdmin(p.admin)
	defer a.Close()
	answer := httptest.NewRecorder()
	status.New(status.Options{Envoy: a, Metrics: status.NewMetrics(), Workload: w.Workload()}).ServeHTTP(
		answer,
		httptest.NewRequest(http.MethodGet, status.EnvoyPath, nil),
	)
	if answer.Code != http.StatusOK {
		t.Fatalf("scrape: %d %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// series waits for a series of a metric that has all the labels, or ends so, and returns its labels
// and value.
func (p *proxy) series(t *testing.T, w node.Node, metric string, has ...string) string {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		text := p.metrics(t, w)
		for line := range strings.Lines(text) {
			rest, ok := strings.CutPrefix(line, metric+"{")
			for _, label := range has {
				ok = ok && (strings.Contains(","+rest, ","+label) || strings.HasSuffix(strings.TrimSpace(rest), label))
			}
			if ok {
				return strings.TrimSpace(rest)
			}
		}
		if time.Now().After(deadline) {
			var ours strings.Builder
			for line := range strings.Lines(text) {
				if strings.Contains(line, "istio_") && !strings.Contains(line, "_bucket") {
					ours.WriteString(line)
				}
			}
			t.Fatalf("no series %s with %v in\n%s", metric, has, ours.String())
		}
	}
}

func (p *proxy) log(t *testing.T, file, want string) string {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(p.dir, file))
		if strings.Contains(string(text), want) {
			return string(text)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has no %q: %s", file, want, text)
		}
	}
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
