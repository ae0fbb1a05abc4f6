package secret

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	echov3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/echo/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/server"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const limit = 20 * time.Second

// TestEnvoyServesTLS: a real Envoy requests secrets as a gateway does, serves with them, and
// follows their rotation.
func TestEnvoyServesTLS(t *testing.T) {
	envoy.RequireBinary(t)
	for _, apiType := range []string{"GRPC", "DELTA_GRPC"} {
		t.Run(apiType, func(t *testing.T) {
			a, clients, theirs := newAuthority("root"), newAuthority("clients"), newAuthority("theirs")
			key := pki.NewKey()
			first, second := a.leaf(key, longAgo, farOff), a.leaf(key, longAgo, farOff)
			cert := func(chain string) string {
				return manifest(
					"Secret",
					"ingress",
					"cert",
					map[string]string{"tls.crt": chain, "tls.key": pkcs8(key), "ca.crt": clients.pem},
				)
			}
			l := newLab(t, cert(first)+
				manifest(
					"Secret",
					"other",
					"theirs",
					map[string]string{"tls.crt": theirs.leaf(key, longAgo, farOff), "tls.key": pkcs8(key)},
				))
			l.serve("mutual", "kubernetes://cert", "kubernetes://cert-cacert")
			l.run(apiType)

			trusted, strange := clientPair(clients), clientPair(theirs)
			l.until("the secret is served", func() error { return l.call("mutual", a, first, trusted) })
			if l.call("mutual", a, first, strange) == nil || l.call("mutual", a, first, nil) == nil {
				t.Error("a client with another certificate, or without one, is accepted")
			}

			l.apply(cert(second))
			l.until("the new certificate is served", func() error { return l.call("mutual", a, second, trusted) })

			// Listeners whose secrets do not come wait. At its start Envoy would wait for them with
			// all others.
			l.serve("later", "kubernetes-gateway://ingress/later", "")
			l.serve("stolen", "kubernetes://other/theirs", "")
			l.apply(manifest(
				"Secret",
				"ingress",
				"cert",
				map[string]string{"tls.crt": first, "tls.key": pkcs8(pki.NewKey())},
			))
			l.apply(manifest("Secret", "ingress", "later", map[string]string{"cert": first, "key": sec1(t, key)}))
			l.until("a secret that was added later is served", func() error { return l.call("later", a, first, nil) })
			if err := l.call("mutual", a, second, trusted); err != nil {
				t.Errorf("a Secret with another's key is not passed over: %v", err)
			}
			if err := l.call("stolen", theirs, "", nil); err == nil {
				t.Error("the Secret of another namespace is served")
			}
			if n := l.pusher.Reports().Nacks(); len(n) > 0 {
				t.Errorf("Envoy refused %+v", n)
			}
		})
	}
}

// lab is a control plane that serves secrets of a mesh, and listeners of the test that request
// them.
type lab struct {
	t         *testing.T
	mesh      *fixture.Mesh
	pusher    *push.Pusher
	ads       net.Addr
	listeners atomic.Pointer[[]*resource.Resource]
	served    int // how many of them were published
	address   map[string]string
}

func newLab(t *testing.T, config string) *lab {
	l := &lab{t: t, mesh: fixture.New(t, []byte(config), nil), address: map[string]string{}}
	g := NewGenerator(SameNamespace)
	l.pusher = push.New(push.Options{Generators: []view.Generator{
		{TypeURL: api.ClusterType, All: func(*view.View) []*resource.Resource { return nil }},
		{TypeURL: api.ListenerType, All: func(*view.View) []*resource.Resource { return *l.listeners.Load() }},
		{TypeURL: api.SecretType, Named: g.Named, Affected: g.Affected, Touched: Touched, Scope: Scope},
	}})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.ads = listener.Addr()
	s := server.New(server.Options{Pusher: l.pusher})
	s.SetReady(true)
	transport := grpc.NewServer(server.ServerOptions(server.Transport{})...)
	s.Register(transport)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { l.pusher.Run(ctx) })
	running.Go(func() { _ = transport.Serve(listener) })
	t.Cleanup(func() {
		transport.Stop()
		cancel()
		running.Wait()
	})
	return l
}

// serve adds a listener that echoes, with the secrets of those names.
func (l *lab) serve(name, certificate, trust string) {
	l.t.Helper()
	port := serving.FreePort(l.t)
	l.address[name] = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	bySDS := func(name string) *tlsv3.SdsSecretConfig {
		return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{
				Ads: new(corev3.AggregatedConfigSource),
			}, ResourceApiVersion: corev3.ApiVersion_V3,
		}}
	}
	c := &tlsv3.DownstreamTlsContext{
		CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{bySDS(certificate)},
		},
	}
	if trust != "" {
		c.RequireClientCertificate = wrapperspb.Bool(true)
		c.CommonTlsContext.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{
			ValidationContextSdsSecretConfig: bySDS(trust),
		}
	}
	r, err := resource.Encode(name, api.ListenerType, &listenerv3.Listener{
		Name: name, Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)},
		}}},
		FilterChains: []*listenerv3.FilterChain{{
			TransportSocket: &corev3.TransportSocket{
				Name:       "tls",
				ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: l.packed(c)},
			},
			Filters: []*listenerv3.Filter{
				{Name: "echo", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: l.packed(new(echov3.Echo))}},
			},
		}},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	list := []*resource.Resource{r}
	if old := l.listeners.Load(); old != nil {
		list = append(slices.Clone(*old), r)
	}
	l.listeners.Store(&list)
}

func (l *lab) packed(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		l.t.Fatal(err)
	}
	return a
}

// run starts an Envoy that is a gateway in the namespace "ingress". It ends with the test.
func (l *lab) run(apiType string) {
	l.t.Helper()
	l.pusher.Publish(l.mesh.Snapshot(), snapshot.Delta{All: l.moreListeners()})
	host, port, _ := net.SplitHostPort(l.ads.String())
	text := strings.NewReplacer("APITYPE", apiType, "HOST", host, "PORT", port).Replace(bootstrap)
	envoy.Start(l.t, envoy.Options{Bootstrap: []byte(text)})
}

// apply changes the mesh.
func (l *lab) apply(config string) {
	l.t.Helper()
	s, d := l.mesh.Apply(l.t, config)
	d.All = d.All || l.moreListeners() // which do not belong to the snapshot
	l.pusher.Publish(s, d)
}

// moreListeners reports whether there are listeners that were not published.
func (l *lab) moreListeners() bool {
	n := len(*l.listeners.Load())
	more := n > l.served
	l.served = n
	return more
}

func (l *lab) until(what string, check func() error) {
	l.t.Helper()
	var err error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	l.t.Fatalf("timed out waiting until %s: %v; connections %+v", what, err, l.pusher.Reports().Connections())
}

// call makes one TLS connection to a listener. The server's certificate must be of the authority,
// and the one given, if any is; client is what the caller shows.
func (l *lab) call(name string, a *authority, want string, client *tls.Certificate) error {
	c := &tls.Config{RootCAs: a.Pool(), ServerName: "localhost"}
	if client != nil {
		c.Certificates = []tls.Certificate{*client}
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: limit}, "tcp", l.address[name], c)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit))
	if _, err := conn.Write([]byte("x")); err != nil {
		return err
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil { // only here the error of a server that does not trust the client is seen
		return err
	}
	if served := pemOf("CERTIFICATE", conn.ConnectionState().PeerCertificates[0].Raw); want != "" && served != want {
		return fmt.Errorf("%s serves another certificate", name)
	}
	return nil
}

func clientPair(a *authority) *tls.Certificate {
	c := a.Issue(&x509.Certificate{DNSNames: []string{"localhost"}}).TLS()
	return &c
}

const bootstrap = `
node: {id: "router~127.0.0.1~lab.ingress~ingress.svc.cluster.local", cluster: lab}
dynamic_resources:
  ads_config:
    api_type: APITYPE
    transport_api_version: V3
    grpc_services: [{envoy_grpc: {cluster_name: xds}}]
  cds_config: {ads: {}, resource_api_version: V3}
  lds_config: {ads: {}, resource_api_version: V3}
static_resources:
  clusters:
  - name: xds
    type: STATIC
    load_assignment:
      cluster_name: xds
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: HOST, port_value: PORT}}}}]}]
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
`
