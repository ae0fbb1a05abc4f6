package listener

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/testkit/envoy"
	"github.com/meshpilot/meshpilot/internal/testkit/golden"
	"github.com/meshpilot/meshpilot/internal/view"
)

// listenersOf gives the listeners of a View with their extensions in place, for an Envoy that nobody sends any.
func listenersOf(t testing.TB, g *Generator, v *view.View) []*listenerv3.Listener {
	t.Helper()
	var out []*listenerv3.Listener
	for _, r := range g.All(v) {
		l := golden.Decode(t, r).(*listenerv3.Listener)
		for _, c := range append(l.GetFilterChains(), l.GetDefaultFilterChain()) {
			for _, f := range c.GetFilters() {
				if f.GetConfigDiscovery() != nil {
					f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: extensionOf(t, g, v, f.GetName())}
				}
			}
		}
		out = append(out, l)
	}
	return out
}

func extensionOf(t testing.TB, g *Generator, v *view.View, name string) *anypb.Any {
	t.Helper()
	r := g.Extension(v, name)
	if r == nil {
		t.Fatalf("there is no extension %q", name)
	}
	e := golden.Decode(t, r).(*corev3.TypedExtensionConfig)
	if e.GetName() != name {
		t.Fatalf("extension %q calls itself %q", name, e.GetName())
	}
	return e.GetTypedConfig()
}

// stage makes listeners fit to be called in a test: those that are bound listen on sockets in a directory, the virtual
// ones learn where a connection was going from the PROXY protocol, routes answer with their names, and each cluster is a
// server of the test that does.
type stage struct {
	t        testing.TB
	dir      string
	place    map[string]int
	clusters []*clusterv3.Cluster
	known    map[string]bool
}

// startEnvoy runs the listeners in an Envoy until the test ends.
func startEnvoy(t testing.TB, listeners []*listenerv3.Listener) *runningEnvoy {
	t.Helper()
	binary := envoy.Require(t)
	dir, err := os.MkdirTemp("", "listeners") // t.TempDir is too long for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &stage{t: t, dir: dir, place: map[string]int{}, known: map[string]bool{}}
	b := &bootstrapv3.Bootstrap{StaticResources: new(bootstrapv3.Bootstrap_StaticResources)}
	for _, l := range listeners {
		b.StaticResources.Listeners = append(b.StaticResources.Listeners, s.listener(l))
	}
	b.StaticResources.Clusters = s.clusters
	e := &runningEnvoy{dir: dir, place: s.place}
	run(t, binary, dir, b, func() error {
		for n := range s.place {
			conn, err := net.Dial("unix", e.socket(n))
			if err != nil {
				return err
			}
			conn.Close()
		}
		return nil
	})
	return e
}

func (s *stage) listener(l *listenerv3.Listener) *listenerv3.Listener {
	l = proto.CloneOf(l)
	if l.GetBindToPort() == nil {
		n := len(s.place)
		s.place[l.GetName()] = n
		l.Address = &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: filepath.Join(s.dir, fmt.Sprintf("l%d.sock", n))}}}
		l.AdditionalAddresses = nil
	}
	if l.GetName() == virtualInbound || l.GetName() == virtualOutbound {
		told := &listenerv3.ListenerFilter{Name: "envoy.filters.listener.proxy_protocol", ConfigType: &listenerv3.ListenerFilter_TypedConfig{
			TypedConfig: packed(new(proxyprotocolv3.ProxyProtocol)),
		}}
		rest := l.GetListenerFilters()
		if len(rest) > 0 && rest[0].GetName() == "envoy.filters.listener.original_dst" {
			rest = rest[1:]
		}
		l.ListenerFilters = append([]*listenerv3.ListenerFilter{told}, rest...)
	}
	for _, c := range append(l.GetFilterChains(), l.GetDefaultFilterChain()) {
		for _, f := range c.GetFilters() {
			s.filter(f)
		}
	}
	return l
}

func (s *stage) filter(f *listenerv3.Filter) {
	m, err := f.GetTypedConfig().UnmarshalNew()
	if err != nil {
		s.t.Fatal(err)
	}
	switch m := m.(type) {
	case *tcpv3.TcpProxy:
		s.cluster(m.GetCluster())
		for _, w := range m.GetWeightedClusters().GetClusters() {
			s.cluster(w.GetName())
		}
	case *hcmv3.HttpConnectionManager:
		says := "routes " + m.GetRds().GetRouteConfigName()
		if m.GetRds() == nil {
			says = "http " + m.GetRouteConfig().GetVirtualHosts()[0].GetRoutes()[0].GetRoute().GetCluster()
		}
		m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
			VirtualHosts: []*routev3.VirtualHost{{Name: "all", Domains: []string{"*"}, Routes: []*routev3.Route{{
				Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 200, Body: &corev3.DataSource{
					Specifier: &corev3.DataSource_InlineString{InlineString: marker + says + "\n"},
				}}},
			}}}},
		}}
		f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: packed(m)}
	}
}

// cluster makes a cluster whose one endpoint says the cluster's name to whoever connects, before they say anything.
func (s *stage) cluster(name string) {
	if name == "" || s.known[name] {
		return
	}
	s.known[name] = true
	path := filepath.Join(s.dir, fmt.Sprintf("c%d.sock", len(s.known)))
	ln, err := net.Listen("unix", path)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(marker + "tcp " + name + "\n"))
			time.AfterFunc(patience, func() { conn.Close() })
		}
	}()
	s.clusters = append(s.clusters, &clusterv3.Cluster{
		Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: name,
			Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
					Address: &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}},
				}},
			}}}},
		},
	})
}

// run runs Envoy until the test ends, and waits until it is ready.
func run(t testing.TB, binary, dir string, b *bootstrapv3.Bootstrap, ready func() error) {
	t.Helper()
	js, err := protojson.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "bootstrap.json")
	if err := os.WriteFile(path, js, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(binary, "--config-path", path, "--disable-hot-restart", "--concurrency", "1", "--log-level", "error")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	deadline := time.After(20 * time.Second)
	for err := errors.New("not asked"); err != nil; err = ready() {
		select {
		case <-ended:
			t.Fatalf("envoy ended:\n%s", log.String())
		case <-deadline:
			t.Fatalf("envoy does not listen: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
