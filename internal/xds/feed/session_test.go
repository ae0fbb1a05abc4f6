package feed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// dial opens a connection to a Feed.
func dial(t *testing.T, at string) (context.Context, discoveryv3.AggregatedDiscoveryServiceClient) {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(func() { cancel(); _ = conn.Close() })
	return ctx, discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
}

// TestRequestsOfIstiod sends requests as istiod does: the mesh config first, an invented nonce in
// first requests, the node in every request, and types that the server does not know.
func TestRequestsOfIstiod(t *testing.T) {
	f := New(plain())
	k := newKeeper(f, objects(t, everyKind)...)
	at, _ := listen(t, f, "127.0.0.1:0", nil)
	ctx, c := dial(t, at)
	st, err := c.StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev3.Node{Id: "sidecar~1.1.1.1~istiod.istio-system~istio-system.svc.cluster.local"}
	ask := func(typeURL, version, nonce string) {
		t.Helper()
		if err := st.Send(
			&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: typeURL, VersionInfo: version, ResponseNonce: nonce},
		); err != nil {
			t.Fatal(err)
		}
	}
	next := func(typeURL string, resources int) {
		t.Helper()
		r, err := st.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if r.TypeUrl != typeURL || len(r.Resources) != resources || r.Nonce == "" {
			t.Fatalf("%d resources of %s with nonce %q, want %d of %s", len(r.Resources), r.TypeUrl,
				r.Nonce, resources, typeURL)
		}
		ask(r.TypeUrl, r.VersionInfo, r.Nonce)
	}
	const entries, routes = "networking.istio.io/v1alpha3/ServiceEntry", "gateway.networking.k8s.io/v1/HTTPRoute"
	ask(meshConfigType, "", "2026-01-02 03:04:05")
	next(meshConfigType, 1)
	ask(routes, "", "2026-01-02 03:04:06")
	next(routes, 0)
	ask(entries, "", "2026-01-02 03:04:07")
	next(entries, 1)
	k.apply(upserts(objects(t, `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: more, namespace: ns}
spec: {hosts: [b.example.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}`)...)...)
	next(entries, 2)
}

// TestRefusedConfigIsNotSentAgain checks that after a NACK and a change only the change is sent.
func TestRefusedConfigIsNotSentAgain(t *testing.T) {
	f := New(plain())
	k := newKeeper(f, objects(t, everyKind)...)
	at, _ := listen(t, f, "127.0.0.1:0", nil)
	ctx, c := dial(t, at)
	st, err := c.DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const entries = "networking.istio.io/v1/ServiceEntry"
	send := func(r *discoveryv3.DeltaDiscoveryRequest) {
		t.Helper()
		if err := st.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	send(
		&discoveryv3.DeltaDiscoveryRequest{
			Node:                   &corev3.Node{Id: "x"},
			TypeUrl:                entries,
			ResourceNamesSubscribe: []string{"*"},
		},
	)
	r, err := st.Recv()
	if err != nil {
		t.Fatal(err)
	}
	send(
		&discoveryv3.DeltaDiscoveryRequest{
			TypeUrl:       entries,
			ResponseNonce: r.Nonce,
			ErrorDetail:   &status.Status{Message: "I do not like ns/se"},
		},
	)
	k.remove(objects(t, everyKind)[3].Key)
	if r, err = st.Recv(); err != nil {
		t.Fatal(err)
	}
	if len(r.Resources) > 0 || len(r.RemovedResources) != 1 || r.RemovedResources[0] != "ns/se" {
		t.Errorf("response %v, want the removal alone", r)
	}
}

func TestNothingIsSentBeforeTheFirstSnapshot(t *testing.T) {
	f := New(plain())
	at, _ := listen(t, f, "127.0.0.1:0", nil)
	ctx, c := dial(t, at)
	st, err := c.StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Send(&discoveryv3.DiscoveryRequest{TypeUrl: "networking.istio.io/v1/Sidecar"}); err != nil {
		t.Fatal(err)
	}
	serving.Until(t, 10*time.Second, "the client is connected", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.clients == 1
	})
	newKeeper(f, objects(t, everyKind)...)
	r, err := st.Recv()
	if err != nil || len(r.Resources) != 1 {
		t.Errorf("first response %v, %v: want the Sidecar", r, err)
	}
}

func TestLibraryIsDroppedWithTheLastClient(t *testing.T) {
	f := New(plain())
	newKeeper(f, objects(t, everyKind)...)
	if f.library != nil {
		t.Error("objects are encoded although no client is connected")
	}
	at, _ := listen(t, f, "127.0.0.1:0", nil)
	ctx, c := dial(t, at)
	ctx, cancel := context.WithCancel(ctx)
	st, err := c.StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Send(&discoveryv3.DiscoveryRequest{TypeUrl: meshConfigType}); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	serving.Until(t, 10*time.Second, "the library is dropped", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.library == nil && f.clients == 0
	})
}

// tally counts events by name.
type tally struct {
	mu sync.Mutex
	m  map[string]int
}

func (c *tally) add(name string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[string]int{}
	}
	c.m[name] += n
}

func (c *tally) copy() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.m)
}

// secured returns the TLS settings of a server on 127.0.0.1 that requires client certificates.
func secured(ca *pki.Pair) *tls.Config {
	own := ca.Issue(
		&x509.Certificate{
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		},
	)
	return &tls.Config{
		Certificates: []tls.Certificate{own.TLS()},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    ca.Pool(),
	}
}

// clientFiles writes the certificate of a service account of the control plane's namespace, and returns its paths.
func clientFiles(t *testing.T, ca *pki.Pair, account string) (cert, key string) {
	t.Helper()
	cert, key = filepath.Join(t.TempDir(), account+".pem"), filepath.Join(t.TempDir(), account+"-key.pem")
	own := ca.Issue(&x509.Certificate{
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		URIs:        []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/istio-system/sa/" + account}},
	})
	if err := own.WriteFiles(cert, key); err != nil {
		t.Fatal(err)
	}
	return cert, key
}
