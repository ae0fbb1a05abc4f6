package feed

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/server"
)

// everyKind contains a valid object of each kind.
const everyKind = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: vs, namespace: ns, labels: {team: a}, annotations: {note: b, kubectl.kubernetes.io/last-applied-configuration: "{}"}, creationTimestamp: "2024-05-06T07:08:09Z"}
spec: {hosts: [a.example.com], http: [{timeout: 1.5s, route: [{destination: {host: a.example.com}}]}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: dr, namespace: ns}
spec: {host: a.example.com, subsets: [{name: v1, labels: {version: v1, app: a}}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gw, namespace: ns}
spec: {selector: {istio: ingressgateway}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: se, namespace: ns}
spec: {hosts: [a.example.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: we, namespace: ns}
spec: {address: 10.0.0.1, labels: {app: a}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: wg, namespace: ns}
spec: {template: {serviceAccount: a}}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: sc, namespace: ns}
spec: {egress: [{hosts: ["./*"]}]}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: ef, namespace: ns}
spec: {configPatches: [{applyTo: CLUSTER, match: {context: SIDECAR_OUTBOUND}, patch: {operation: MERGE, value: {connect_timeout: 1s}}}]}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: pc, namespace: ns}
spec: {concurrency: 2}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: ap, namespace: ns}
spec: {rules: [{to: [{operation: {methods: [GET]}}]}]}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: pa, namespace: ns}
spec: {mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: ra, namespace: ns}
spec: {jwtRules: [{issuer: me, jwksUri: "https://example.com/jwks"}]}
---
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: te, namespace: ns}
spec: {accessLogging: [{providers: [{name: envoy}]}]}
---
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: wp, namespace: ns}
spec: {url: "oci://example.com/plugin:v1"}
---
apiVersion: extensions.istio.io/v1alpha1
kind: TrafficExtension
metadata: {name: tx, namespace: ns}
spec: {wasm: {url: "oci://example.com/plugin:v1"}}
`

func objects(t testing.TB, manifest string) []*config.Config {
	t.Helper()
	var list []*config.Config
	for _, d := range decode.Manifest("test.yaml", []byte(manifest)) {
		if d.Config == nil {
			t.Fatalf("%v", d.Problems)
		}
		list = append(list, d.Config)
	}
	return list
}

func upserts(list ...*config.Config) []mesh.Event {
	events := make([]mesh.Event, len(list))
	for i, c := range list {
		events[i] = mesh.Event{Source: "test", Config: c}
	}
	return events
}

// keeper builds snapshots and publishes them to a Feed.
type keeper struct {
	builder *snapshot.Builder
	feed    *Feed
}

func newKeeper(f *Feed, list ...*config.Config) *keeper {
	k := &keeper{snapshot.NewBuilder(snapshot.Options{}), f}
	k.apply(upserts(list...)...)
	return k
}

func (k *keeper) apply(events ...mesh.Event) {
	s, _ := k.builder.Apply(events...)
	k.feed.Publish(s)
}

func (k *keeper) remove(key config.Key) {
	k.apply(mesh.Event{Op: mesh.Delete, Source: "test", Config: &config.Config{Meta: config.Meta{Key: key}}})
}

// adapter serves a Feed as a gRPC service, without the xDS server.
type adapter struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	feed *Feed
}

func hello(ctx context.Context) server.Hello {
	h := server.Hello{}
	p, _ := peer.FromContext(ctx)
	h.Peer = p.Addr.String()
	if t, ok := p.AuthInfo.(credentials.TLSInfo); ok {
		h.Secure = true
		for _, c := range t.State.PeerCertificates[:min(1, len(t.State.PeerCertificates))] {
			for _, u := range c.URIs {
				h.Identities = append(h.Identities, u.String())
			}
		}
	}
	return h
}

func (a *adapter) StreamAggregatedResources(
	s discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer,
) error {
	return a.feed.ServeSotW(s.Context(), hello(s.Context()), s)
}

func (a *adapter) DeltaAggregatedResources(
	s discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer,
) error {
	return a.feed.ServeDelta(s.Context(), hello(s.Context()), s)
}

// listen serves a Feed until the test ends or stop is called.
func listen(t testing.TB, f *Feed, address string, c *tls.Config) (at string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	o := []grpc.ServerOption{grpc.WaitForHandlers(true)}
	if c != nil {
		o = append(o, grpc.Creds(credentials.NewTLS(c)))
	}
	g := grpc.NewServer(o...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, &adapter{feed: f})
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(l) }()
	stop = sync.OnceFunc(func() { g.Stop(); <-done })
	t.Cleanup(stop)
	return l.Addr().String(), stop
}
