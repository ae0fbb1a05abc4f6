package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// lab is a control plane whose resources the test writes itself, with an upstream and an address on
// which Envoy listens.
type lab struct {
	t        *testing.T
	addr     string // of the control plane
	upstream []string
	listen   string
	state    atomic.Pointer[labState]

	mesh   *pushtest.Mesh
	pusher *push.Pusher
	server *Server
	grpc   *grpc.Server
	end    func()
}

// labState is the configuration that Envoy should have: clusters with their connect timeouts in
// seconds, and the cluster that the route selects.
type labState struct {
	clusters map[string]int
	route    string
	second   bool // adds a second endpoint
}

func newLab(t *testing.T) *lab {
	l := &lab{t: t, addr: serving.FreeAddress(t), listen: serving.FreeAddress(t)}
	for range 2 {
		s := httptest.NewServer(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }),
		)
		t.Cleanup(s.Close)
		l.upstream = append(l.upstream, s.Listener.Addr().String())
	}
	l.state.Store(&labState{clusters: map[string]int{"base": 5}, route: "base"})
	t.Cleanup(func() { l.end() })
	return l
}

func (l *lab) start() {
	l.t.Helper()
	l.mesh = pushtest.New(l.t, 0)
	l.pusher = push.New(push.Options{Generators: []view.Generator{
		{TypeURL: api.ClusterType, All: l.clusters}, {TypeURL: api.EndpointType, Named: l.endpoints},
		{TypeURL: api.ListenerType, All: l.listeners}, {TypeURL: api.RouteType, Named: l.routes},
	}})
	l.pusher.Publish(l.mesh.Current(), snapshot.Delta{All: true})
	l.server = New(Options{Pusher: l.pusher})
	l.server.SetReady(true)
	l.grpc = grpc.NewServer(ServerOptions(Transport{})...)
	l.server.Register(l.grpc)
	listener, err := net.Listen("tcp", l.addr)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { l.pusher.Run(ctx) })
	running.Go(func() { _ = l.grpc.Serve(listener) })
	l.end = func() {
		l.grpc.Stop() // without a graceful stop, as if killed
		cancel()
		running.Wait()
	}
}

func (l *lab) restart() {
	l.end()
	l.start()
}

// apply changes the state as one change, and waits until it has been pushed.
func (l *lab) apply(change func(*labState)) {
	l.t.Helper()
	old := l.state.Load()
	next := &labState{clusters: map[string]int{}, route: old.route, second: old.second}
	for name, timeout := range old.clusters {
		next.clusters[name] = timeout
	}
	change(next)
	next.clusters["base"] = 5
	l.state.Store(next)
	l.mesh.EditRoutes() // creates a snapshot version to wait for
	l.pusher.Publish(l.mesh.Current(), snapshot.Delta{All: true})
	l.wait("the change is pushed", func() bool { return l.pusher.Reports().Stats().Snapshot >= l.mesh.Current().Version })
}

// awaitAcks waits until Envoy has acknowledged everything and no removed cluster lingers.
func (l *lab) awaitAcks() {
	l.t.Helper()
	l.wait("Envoy has acknowledged everything", func() bool {
		list := l.pusher.Reports().Connections()
		if len(list) != 1 || len(list[0].Types) < 4 {
			return false
		}
		for _, w := range list[0].Types {
			if w.SentNonce == "" || w.AckedNonce != w.SentNonce || w.Lingering > 0 {
				return false
			}
		}
		return true
	})
}

func (l *lab) wait(what string, done func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(2 * limit); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatalf("timed out waiting until %s; connections %+v", what, l.pusher.Reports().Connections())
		}
	}
}

func encoded(name, typeURL string, m proto.Message) *resource.Resource {
	r, err := resource.Encode(name, typeURL, m)
	if err != nil {
		panic(err)
	}
	return r
}

var adsSource = &corev3.ConfigSource{
	ConfigSourceSpecifier: &corev3.ConfigSource_Ads{
		Ads: &corev3.AggregatedConfigSource{},
	},
	ResourceApiVersion:  corev3.ApiVersion_V3,
	InitialFetchTimeout: durationpb.New(0), // no timeout, so that the test sees clusters that stay warming
}

func (l *lab) clusters(*view.View) []*resource.Resource {
	var list []*resource.Resource
	for name, timeout := range l.state.Load().clusters {
		list = append(list, encoded(name, api.ClusterType, &clusterv3.Cluster{
			Name: name, ConnectTimeout: durationpb.New(time.Duration(timeout) * time.Second),
			ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
			EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{ServiceName: name, EdsConfig: adsSource},
		}))
	}
	return list
}

// endpoints returns the endpoints of a cluster. It returns none if the cluster does not exist, as
// the real generator does.
func (l *lab) endpoints(_ *view.View, name string) *resource.Resource {
	s := l.state.Load()
	a := &endpointv3.ClusterLoadAssignment{ClusterName: name}
	if s.clusters[name] > 0 {
		a.Endpoints = []*endpointv3.LocalityLbEndpoints{
			{LbEndpoints: []*endpointv3.LbEndpoint{lbEndpoint(l.upstream[0])}},
		}
		if s.second {
			a.Endpoints[0].LbEndpoints = append(a.Endpoints[0].LbEndpoints, lbEndpoint(l.upstream[1]))
		}
	}
	return encoded(name, api.EndpointType, a)
}

func lbEndpoint(address string) *endpointv3.LbEndpoint {
	return &endpointv3.LbEndpoint{
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: socket(address)}},
	}
}

func socket(address string) *corev3.Address {
	host, port, _ := net.SplitHostPort(address)
	var n uint32
	_, _ = fmt.Sscan(port, &n)
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: n},
	}}}
}

func anyOf(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		panic(err)
	}
	return a
}

func (l *lab) listeners(*view.View) []*resource.Resource {
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix: "lab",
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{
			Rds: &hcmv3.Rds{RouteConfigName: "80", ConfigSource: adsSource},
		},
		HttpFilters: []*hcmv3.HttpFilter{
			{
				Name:       "envoy.filters.http.router",
				ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: anyOf(new(routerv3.Router))},
			},
		},
	}
	return []*resource.Resource{encoded("l", api.ListenerType, &listenerv3.Listener{
		Name:    "l",
		Address: socket(l.listen),
		FilterChains: []*listenerv3.FilterChain{{Name: "http", Filters: []*listenerv3.Filter{
			{
				Name:       "envoy.filters.network.http_connection_manager",
				ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: anyOf(manager)},
			},
		}}},
	})}
}

func (l *lab) routes(_ *view.View, name string) *resource.Resource {
	return encoded(name, api.RouteType, &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{{
		Name: "all", Domains: []string{"*"}, Routes: []*routev3.Route{
			{
				Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Action: &routev3.Route_Route{
					Route: &routev3.RouteAction{
						ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: l.state.Load().route},
					},
				},
			},
		},
	}}})
}

// load sends requests through Envoy until the returned function is called, which returns the number
// of requests and the failures.
func (l *lab) load() func() (int, []string) {
	l.t.Helper()
	call := func(client *http.Client) error {
		r, err := client.Get("http://" + l.listen + "/")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		_, _ = io.Copy(io.Discard, r.Body)
		if r.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", r.StatusCode)
		}
		return nil
	}
	first := &http.Client{Timeout: limit}
	l.wait("Envoy serves requests", func() bool { return call(first) == nil })
	first.CloseIdleConnections()
	l.awaitAcks()

	stop := make(chan struct{})
	var running sync.WaitGroup
	var mu sync.Mutex
	var count int
	var bad []string
	for range 4 {
		running.Go(func() {
			client := &http.Client{Timeout: limit, Transport: new(http.Transport)}
			defer client.CloseIdleConnections()
			for {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond):
				}
				err := call(client)
				mu.Lock()
				count++
				if err != nil {
					bad = append(bad, err.Error())
				}
				mu.Unlock()
			}
		})
	}
	return func() (int, []string) {
		close(stop)
		running.Wait()
		return count, bad
	}
}
