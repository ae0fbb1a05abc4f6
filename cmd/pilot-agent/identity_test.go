package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/test/support/authority"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// secureMesh is a control plane with its certificate authority, behind TLS.
type secureMesh struct {
	root      *pki.Pair
	address   string
	authority *authority.Authority
	plane     *controlPlane
	// dir is the working directory of an agent, with the mesh's roots and a token.
	dir string
}

func newSecureMesh(t *testing.T, resources ...proto.Message) *secureMesh {
	t.Helper()
	m := &secureMesh{root: pki.Authority("mesh"), dir: t.TempDir()}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", serving.FreePort(t)))
	if err != nil {
		t.Fatal(err)
	}
	m.address = l.Addr().String()
	server := m.root.Issue(&x509.Certificate{DNSNames: []string{"istiod.istio-system.svc"}}).TLS()
	m.plane = &controlPlane{t: t, changed: make(chan struct{})}
	m.plane.set(resources...)
	m.authority = authority.New(authority.Answer{Root: m.root})
	m.authority.Serve(
		t,
		l,
		&server,
		func(s *grpc.Server) { discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, m.plane) },
	)
	m.write(t, "var/run/secrets/istio/root-cert.pem", m.root.CertificatePEM())
	m.write(t, "var/run/secrets/tokens/istio-token", []byte("token-1\n"))
	return m
}

func (m *secureMesh) write(t *testing.T, path string, content []byte) {
	t.Helper()
	path = filepath.Join(m.dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// start starts an agent of the mesh.
func (m *secureMesh) start(t *testing.T, env ...string) *agent {
	t.Helper()
	return startAgent(t, settings{
		dir: m.dir,
		config: map[string]any{
			"discoveryAddress":         m.address,
			"controlPlaneAuthPolicy":   "MUTUAL_TLS",
			"terminationDrainDuration": "0s",
		},
		env: append(
			[]string{"SERVICE_ACCOUNT=sa", "ISTIO_META_CLUSTER_ID=c1", "ISTIOD_SAN=istiod.istio-system.svc"},
			env...),
	})
}

// secured makes a listener present a certificate and require client certificates, by names of
// secrets.
func secured(t *testing.T, l *listenerv3.Listener, certificate, roots string) *listenerv3.Listener {
	t.Helper()
	socket, err := anypb.New(&tlsv3.DownstreamTlsContext{
		RequireClientCertificate: wrapperspb.Bool(true),
		CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{fromAgent(certificate)},
			ValidationContextType: &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{
				ValidationContextSdsSecretConfig: fromAgent(roots),
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.FilterChains[0].TransportSocket = &corev3.TransportSocket{
		Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: socket},
	}
	return l
}

// fromAgent returns the SDS configuration that istiod sends for a secret. Those from files have a
// separate server if another one has the identity.
func fromAgent(name string) *tlsv3.SdsSecretConfig {
	cluster := "sds-grpc"
	if strings.HasPrefix(name, "file-") {
		cluster = "sds-files-grpc"
	}
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
		ResourceApiVersion: corev3.ApiVersion_V3, InitialFetchTimeout: durationpb.New(0),
		ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
			ApiType:                   corev3.ApiConfigSource_GRPC,
			TransportApiVersion:       corev3.ApiVersion_V3,
			SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster},
			}}},
		}},
	}}
}

// callSecured makes a request with a certificate, and returns the one that the server presented.
func callSecured(port int, client *pki.Pair, roots *x509.CertPool) (*x509.Certificate, error) {
	var shown *x509.Certificate
	config := &tls.Config{
		Certificates: []tls.Certificate{client.TLS()}, InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			shown = s.PeerCertificates[0]
			rest := x509.NewCertPool()
			for _, c := range s.PeerCertificates[1:] {
				rest.AddCert(c)
			}
			_, err := shown.Verify(x509.VerifyOptions{Roots: roots, Intermediates: rest})
			return err
		},
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: patience}
	answer, err := c.Get(fmt.Sprintf("https://127.0.0.1:%d/", port))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answer %s", answer.Status)
	}
	return shown, nil
}

// TestIdentity tests that an agent gets a certificate by its token, that Envoy serves with it, and
// that renewal, an outage of the authority and added roots need no new Envoy.
func TestIdentity(t *testing.T) {
	app := newService(t).port
	port := serving.FreePort(t)
	m := newSecureMesh(t, cluster("app", "127.0.0.1", app),
		secured(t, listener(t, corev3.TrafficDirection_INBOUND, "127.0.0.1", port, "in", "app"), "default", "ROOTCA"))
	m.authority.SetAnswer(authority.Answer{Root: m.root, Lifetime: 5 * time.Second})
	a := m.start(t, "SECRET_TTL=2h")
	a.awaitReady(t)
	pid := a.envoyPID(t)

	call := m.authority.AwaitRequests(t, 1)[0]
	if got := call.Metadata.Get("authorization"); len(got) != 1 || got[0] != "Bearer token-1" {
		t.Errorf("token %q", got)
	}
	if got := call.Metadata.Get("clusterid"); len(got) != 1 || got[0] != "c1" {
		t.Errorf("cluster %q", got)
	}
	if len(call.Request.URIs) != 1 || call.Request.URIs[0].String() != "spiffe://cluster.local/ns/ns/sa/sa" ||
		call.Lifetime != 2*time.Hour {
		t.Errorf("requested identity %v and lifetime %v", call.Request.URIs, call.Lifetime)
	}
	client := m.root.Issue(&x509.Certificate{})
	var first *x509.Certificate
	serving.Eventually(t, patience, "the first certificate", func() (err error) {
		first, err = callSecured(port, client, m.root.Pool())
		return err
	})
	stranger := pki.Authority("stranger").Issue(&x509.Certificate{})
	if _, err := callSecured(port, stranger, m.root.Pool()); err == nil {
		t.Error("a client with a certificate of an unknown authority is served")
	}

	// The authority is down at the renewal, and the token has changed when it is back.
	m.write(t, "var/run/secrets/tokens/istio-token", []byte("token-2"))
	m.authority.SetAnswer(authority.Answer{Error: status.Error(codes.Unavailable, "away")})
	m.authority.AwaitRequests(t, 3)
	if _, err := callSecured(port, client, m.root.Pool()); err != nil {
		t.Error("while the authority is away:", err)
	}
	m.authority.SetAnswer(authority.Answer{Root: m.root})
	serving.Eventually(t, patience, "the second certificate", func() error {
		second, err := callSecured(port, client, m.root.Pool())
		if err == nil && second.SerialNumber.Cmp(first.SerialNumber) == 0 {
			err = fmt.Errorf("still the first")
		}
		return err
	})
	calls := m.authority.AwaitRequests(t, 4)
	if got := calls[len(calls)-1].Metadata.Get("authorization"); len(got) != 1 || got[0] != "Bearer token-2" {
		t.Errorf("the second token is %q", got)
	}
	if a.envoyPID(t) != pid {
		t.Error("it took another Envoy")
	}
	serving.Eventually(t, patience, "metrics", func() error {
		return want(get(a.status, "/stats/prometheus"), 200, `istio_agent_cert_expiry_seconds{resource_name="default"}`)
	})
}

// TestControlPlaneIsChecked tests that only the mesh's control plane is accepted.
func TestControlPlaneIsChecked(t *testing.T) {
	m := newSecureMesh(t)
	m.write(t, "var/run/secrets/istio/root-cert.pem", pki.Authority("another").CertificatePEM())
	a := m.start(t)
	a.awaitLog(t, "certificate signed by unknown authority")
	if calls := m.authority.AwaitRequests(t, 0); len(calls) > 0 || len(m.plane.connected()) > 0 {
		t.Errorf("%d certificate requests, connected agents: %v", len(calls), m.plane.connected())
	}
	// The file is read for each connection.
	m.write(t, "var/run/secrets/istio/root-cert.pem", m.root.CertificatePEM())
	m.authority.AwaitRequests(t, 1)
	a.awaitReady(t)
}
