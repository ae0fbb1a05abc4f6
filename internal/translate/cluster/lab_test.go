package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
	"github.com/meshpilot/meshpilot/internal/translate/secret"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/server"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// patience is the timeout of each wait of the lab.
const patience = 20 * time.Second

// lab is a real Envoy that gets the clusters of a mesh, their endpoints and secrets over ADS, and a
// client of it. Headers of a request select the cluster and the hash key.
type lab struct {
	t      *testing.T
	pusher *push.Pusher
	client *http.Client
}

// newLab starts a sidecar of namespace "default" with the label "app: lab", and the certificate of
// the files chain, key and roots, in a mesh with this configuration.
func newLab(t *testing.T, config string, certificate [3]string, meshConfig ...string) *lab {
	t.Helper()
	envoy.RequireBinary(t)
	l := &lab{t: t, pusher: push.New(push.Options{Generators: labGenerators()})}
	l.pusher.Publish(
		fixture.New(t, []byte(config), []byte(strings.Join(meshConfig, "\n"))).Snapshot(),
		snapshot.Delta{All: true},
	)
	address := serving.FreeAddress(t)
	l.client = &http.Client{Timeout: patience, Transport: &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("tcp", address) },
		DisableKeepAlives: true,
	}}
	_, listens, _ := net.SplitHostPort(address)
	host, port, _ := net.SplitHostPort(l.serve())
	text := strings.NewReplacer("$HOST", host, "$PORT", port, "$LISTENS", listens,
		"$CHAIN", certificate[0], "$KEY", certificate[1], "$ROOTS", certificate[2]).Replace(labBootstrap)
	envoy.Start(t, envoy.Options{Bootstrap: []byte(text), Ready: envoy.Listening("tcp", address)})
	return l
}

func labGenerators() []view.Generator {
	clusters, endpoints, secrets := NewGenerator(), endpoint.NewGenerator(), secret.NewGenerator(secret.Public)
	return []view.Generator{
		{TypeURL: api.ClusterType, All: clusters.All},
		{TypeURL: api.EndpointType, Named: endpoints.Named, Affected: endpoints.Affected},
		{TypeURL: api.SecretType, Named: secrets.Named, Affected: secrets.Affected, Touched: secret.Touched},
	}
}

// serve runs the control plane, and returns its address.
func (l *lab) serve() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.t.Fatal(err)
	}
	s := server.New(server.Options{Pusher: l.pusher})
	s.SetReady(true)
	transport := grpc.NewServer(server.ServerOptions(server.Transport{})...)
	s.Register(transport)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { l.pusher.Run(ctx) })
	running.Go(func() { _ = transport.Serve(listener) })
	l.t.Cleanup(func() {
		transport.Stop()
		cancel()
		running.Wait()
	})
	return listener.Addr().String()
}

func (l *lab) until(what string, check func() error) {
	l.t.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	l.t.Fatalf("timed out waiting until %s: %v; connections %+v", what, err, l.pusher.Reports().Connections())
}

// answer is the response to a request.
type answer struct {
	status int
	body   string
	// flags are Envoy's response flags and details, for messages.
	flags string
}

// get sends a request to a cluster; host and hash may be empty.
func (l *lab) get(cluster, host, hash string) answer {
	l.t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+strings.TrimPrefix(host+".lab", ".")+"/", http.NoBody)
	if err != nil {
		return answer{flags: err.Error()}
	}
	if host != "" {
		r.Host = host
	}
	r.Header.Set("x-cluster", cluster)
	if hash != "" {
		r.Header.Set("x-hash", hash)
	}
	res, err := l.client.Do(r)
	if err != nil {
		return answer{flags: err.Error()}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{flags: err.Error()}
	}
	return answer{res.StatusCode, strings.TrimSpace(string(body)), res.Header.Get("x-flags")}
}

// reaches waits until a request to the cluster is answered with a body.
func (l *lab) reaches(cluster, host, body string) {
	l.t.Helper()
	l.until(cluster+" answers", func() error {
		if a := l.get(cluster, host, ""); a.status != http.StatusOK || a.body != body {
			return fmt.Errorf("%+v, want %q", a, body)
		}
		return nil
	})
}

// fails waits until a request to the cluster fails in a way that Envoy's response flags and
// details, or the body, contain.
func (l *lab) fails(cluster, host, how string) {
	l.t.Helper()
	l.until(cluster+" fails", func() error {
		if a := l.get(cluster, host, ""); a.status != http.StatusServiceUnavailable ||
			!strings.Contains(a.flags+a.body, how) {
			return fmt.Errorf("%+v, want 503 with %q", a, how)
		}
		return nil
	})
}

const labBootstrap = `
node:
  id: "sidecar~127.0.0.1~lab.default~default.svc.cluster.local"
  cluster: lab
  metadata: {LABELS: {app: lab}, TLS_CLIENT_CERT_CHAIN: "$CHAIN", TLS_CLIENT_KEY: "$KEY", TLS_CLIENT_ROOT_CERT: "$ROOTS"}
dynamic_resources:
  ads_config:
    api_type: DELTA_GRPC
    transport_api_version: V3
    grpc_services: [{envoy_grpc: {cluster_name: xds}}]
  cds_config: {ads: {}, resource_api_version: V3}
static_resources:
  clusters:
  - name: xds
    type: STATIC
    load_assignment:
      cluster_name: xds
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: $HOST, port_value: $PORT}}}}]}]
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
  listeners:
  - name: lab
    address: {socket_address: {address: 127.0.0.1, port_value: $LISTENS}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: lab
          http_filters:
          - {name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              response_headers_to_add:
              - header: {key: x-flags, value: "%RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %UPSTREAM_TRANSPORT_FAILURE_REASON%"}
              routes:
              - match: {prefix: /}
                route: {cluster_header: x-cluster, timeout: 5s, hash_policy: [{header: {header_name: x-hash}}]}
`
