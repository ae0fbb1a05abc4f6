package discovery

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	security "istio.io/api/security/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// laptop is a control plane without Kubernetes that has an authority.
type laptop struct {
	*controlPlane
	caDir, secure string
	names         string         // server name that clients use; "": that of the default namespace
	trust         *x509.CertPool // nil: the root in caDir
}

func startLaptop(t *testing.T, change func(*Options)) *laptop {
	t.Helper()
	l := &laptop{caDir: filepath.Join(t.TempDir(), "ca"), secure: serving.FreeAddress(t)}
	l.controlPlane = startWith(t, map[string]string{"groups.yaml": groups("shop/web", "shop/api", "shop/w0", "shop/w1", "shop/w2", "shop/w3", "istio-system/istiod")}, func(o *Options) {
		o.Authority.Dir, o.SecureGRPCAddr = l.caDir, l.secure
		change(o)
	})
	return l
}

// groups returns WorkloadGroups of service accounts, which are given as NAMESPACE/NAME.
func groups(accounts ...string) string {
	var b strings.Builder
	for _, a := range accounts {
		namespace, name, _ := strings.Cut(a, "/")
		fmt.Fprintf(&b, "---\napiVersion: networking.istio.io/v1\nkind: WorkloadGroup\nmetadata: {name: %s, namespace: %s}\nspec: {template: {serviceAccount: %s}}\n", name, namespace, name)
	}
	return b.String()
}

// token returns a signed workload token.
func (l *laptop) token(namespace, account string, lifetime time.Duration, audiences ...string) string {
	l.t.Helper()
	key, err := ca.ReadTokenKey(l.caDir)
	if err != nil {
		l.t.Fatal(err)
	}
	at := time.Now()
	if lifetime < 0 {
		at, lifetime = at.Add(2*lifetime), -lifetime
	}
	token, err := authenticate.SignWorkloadToken(key, namespace, account, audiences, at, lifetime)
	if err != nil {
		l.t.Fatal(err)
	}
	return token
}

// roots returns the roots that clients of the control plane trust.
func (l *laptop) roots() *x509.CertPool {
	l.t.Helper()
	text, err := os.ReadFile(filepath.Join(l.caDir, "root-cert.pem"))
	if err != nil {
		l.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		l.t.Fatal("no root certificate in the CA directory")
	}
	return pool
}

// dial connects over TLS, with a client certificate if own is not nil.
func (l *laptop) dial(own *tls.Certificate) *grpc.ClientConn {
	l.t.Helper()
	trust, name := l.trust, l.names
	if trust == nil {
		trust = l.roots()
	}
	if name == "" {
		name = "istiod.istio-system.svc"
	}
	c, err := dialTo(l.secure, name, trust, own)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = c.Close() })
	return c
}

// bearing returns a context that bears a token.
func bearing(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// certificate requests a certificate for a new key.
func (l *laptop) certificate(ctx context.Context, own *tls.Certificate, r *security.IstioCertificateRequest) (*tls.Certificate, error) {
	l.t.Helper()
	key := pki.NewKey()
	if r.Csr == "" {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{"evil"}}, key)
		if err != nil {
			l.t.Fatal(err)
		}
		r.Csr = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	}
	return l.certificateFor(ctx, own, key, r)
}

// certificateFor requests a certificate for a key.
func (l *laptop) certificateFor(ctx context.Context, own *tls.Certificate, key crypto.Signer, r *security.IstioCertificateRequest) (*tls.Certificate, error) {
	l.t.Helper()
	answer, err := security.NewIstioCertificateServiceClient(l.dial(own)).CreateCertificate(ctx, r)
	if err != nil {
		return nil, err
	}
	private, err := ca.EncodeKey(key)
	if err != nil {
		l.t.Fatal(err)
	}
	c, err := tls.X509KeyPair([]byte(strings.Join(answer.CertChain[:len(answer.CertChain)-1], "")), private)
	if err != nil {
		l.t.Fatal(err)
	}
	return &c, nil
}

func node(namespace string, fields map[string]any) *corev3.Node {
	md, err := structpb.NewStruct(fields)
	if err != nil {
		panic(err)
	}
	return &corev3.Node{Id: "sidecar~10.0.0.1~web-1." + namespace + "~" + namespace + ".svc.cluster.local", Metadata: md}
}

// ask opens a stream, sends one request, and returns the first response or the status of the
// stream.
func (l *laptop) ask(ctx context.Context, own *tls.Certificate, n *corev3.Node, typeURL string) (*discoveryv3.DiscoveryResponse, error) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(l.dial(own)).StreamAggregatedResources(ctx)
	if err != nil {
		return nil, err
	}
	_ = st.Send(&discoveryv3.DiscoveryRequest{Node: n, TypeUrl: typeURL}) // Recv returns the status
	return st.Recv()
}

func TestCertificates(t *testing.T) { inBothModes(t, testCertificates) }

func testCertificates(t *testing.T, l *mode) {
	own, err := l.certificate(bearing(t.Context(), l.token("web", "istio-ca")), nil, &security.IstioCertificateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := spiffe.LeafID(own.Leaf)
	if err != nil || id.String() != "spiffe://cluster.local/ns/"+l.shop+"/sa/web" || len(own.Leaf.DNSNames) > 0 {
		t.Errorf("certificate for %s (%v) with DNS names %v", id, err, own.Leaf.DNSNames)
	}
	// The certificate authenticates too: a workload renews it this way.
	again, err := l.certificate(t.Context(), own, &security.IstioCertificateRequest{ValidityDuration: 600})
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(again.Leaf.NotAfter); left > 10*time.Minute || left < 9*time.Minute {
		t.Errorf("the certificate is valid for %v, want 10 minutes", left)
	}
	for name, tt := range map[string]struct {
		ctx  context.Context
		ask  *security.IstioCertificateRequest
		want codes.Code
	}{
		"no credentials":   {t.Context(), new(security.IstioCertificateRequest), codes.Unauthenticated},
		"an empty token":   {bearing(t.Context(), ""), new(security.IstioCertificateRequest), codes.Unauthenticated},
		"another audience": {bearing(t.Context(), l.token("web", "other")), new(security.IstioCertificateRequest), codes.Unauthenticated},
		"an expired token": {bearing(t.Context(), l.ended), new(security.IstioCertificateRequest), codes.Unauthenticated},
		"payload null":     {bearing(t.Context(), ".bnVsbM."), new(security.IstioCertificateRequest), codes.Unauthenticated},
		"no such workload": {bearing(t.Context(), l.gone), new(security.IstioCertificateRequest), codes.Unauthenticated},
		"two tokens": {
			bearing(bearing(t.Context(), l.token("web", "istio-ca")), l.token("api", "istio-ca")),
			new(security.IstioCertificateRequest), codes.Unauthenticated,
		},
		"a lifetime too long":     {bearing(t.Context(), l.token("web", "istio-ca")), &security.IstioCertificateRequest{ValidityDuration: 91 * 24 * 3600}, codes.InvalidArgument},
		"a negative lifetime":     {bearing(t.Context(), l.token("web", "istio-ca")), &security.IstioCertificateRequest{ValidityDuration: -91 * 24 * 3600}, codes.OK}, // as if none was requested
		"an overflowing lifetime": {bearing(t.Context(), l.token("web", "istio-ca")), &security.IstioCertificateRequest{ValidityDuration: math.MaxInt64 / int64(time.Second) * 2}, codes.InvalidArgument},
		"no request":              {bearing(t.Context(), l.token("web", "istio-ca")), &security.IstioCertificateRequest{Csr: "x"}, codes.InvalidArgument},
		"another identity": {bearing(t.Context(), l.token("web", "istio-ca")), &security.IstioCertificateRequest{Metadata: &structpb.Struct{
			Fields: map[string]*structpb.Value{"ImpersonatedIdentity": structpb.NewStringValue("spiffe://cluster.local/ns/" + l.shop + "/sa/api")},
		}}, codes.Unauthenticated},
		"another signer": {bearing(t.Context(), l.token("web", "istio-ca")), &security.IstioCertificateRequest{Metadata: &structpb.Struct{
			Fields: map[string]*structpb.Value{"CertSigner": structpb.NewStringValue("x")},
		}}, codes.InvalidArgument},
	} {
		given, err := l.certificate(tt.ctx, nil, tt.ask)
		if status.Code(err) != tt.want {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		if given != nil && time.Until(given.Leaf.NotAfter) > 24*time.Hour {
			t.Errorf("%s: NotAfter = %v", name, given.Leaf.NotAfter)
		}
	}
	if body, err := l.get("/metrics"); err != nil || !strings.Contains(body, "citadel_server_success_cert_issuance_count 3\n") ||
		!strings.Contains(body, "citadel_server_authentication_failure_count 8\n") || strings.Contains(body, "citadel_server_root_cert_expiry_timestamp 0\n") {
		t.Errorf("missing metrics: %v", grep(body, "citadel_"))
	} else if handled := `grpc_server_handled_total{grpc_code="OK",grpc_method="CreateCertificate",` +
		`grpc_service="istio.v1.auth.IstioCertificateService",grpc_type="unary"} 3`; !strings.Contains(body, handled+"\n") {
		t.Errorf("no metric %s: %v", handled, grep(body, "grpc_server_handled"))
	}
}

func grep(text, part string) (list []string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) && !strings.HasPrefix(line, "#") {
			list = append(list, line)
		}
	}
	return list
}

// TestTokensOfDeletedObjects: when a workload is removed from the files, its tokens lose their
// identity; tokens of other workloads do not.
func TestTokensOfDeletedObjects(t *testing.T) {
	l := startLaptop(t, func(*Options) {})
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: lone}
spec: {serviceAccountName: web, containers: []}
status: {phase: Running, podIP: 10.0.0.7, podIPs: [{ip: 10.0.0.7}]}
`
	asks := func(namespace string) error {
		_, err := l.certificate(bearing(t.Context(), l.token(namespace, "web", time.Hour, "istio-ca")), nil, new(security.IstioCertificateRequest))
		return err
	}
	if err := asks("lone"); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a workload that is not listed gets a certificate: %v", err)
	}
	l.write("pod.yaml", pod)
	l.eventually("the pod has an identity", func() error { return asks("lone") })
	l.write("pod.yaml", "")
	l.eventually("the pod has no identity any more", func() error {
		if err := asks("lone"); status.Code(err) != codes.Unauthenticated {
			return fmt.Errorf("it still has an identity: %w", err)
		}
		return nil
	})
	if err := asks("shop"); err != nil {
		t.Error(err)
	}
}

// TestStreamsAreOfTheirIdentity checks that the node of a stream must match its authenticated
// identity, whichever of its fields are missing. T-XDS-ID.
func TestStreamsAreOfTheirIdentity(t *testing.T) { inBothModes(t, testStreamsAreOfTheirIdentity) }

func testStreamsAreOfTheirIdentity(t *testing.T, l *mode) {
	token := l.token("web", "istio-ca")
	own, err := l.certificate(bearing(t.Context(), token), nil, &security.IstioCertificateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	none, bearer := t.Context(), bearing(t.Context(), token)
	for name, tt := range map[string]struct {
		ctx  context.Context
		own  *tls.Certificate
		node *corev3.Node
		want codes.Code
	}{
		"certificate":                    {none, own, node(l.shop, map[string]any{"NAMESPACE": l.shop, "SERVICE_ACCOUNT": "web"}), codes.OK},
		"token":                          {bearer, nil, node(l.shop, map[string]any{"NAMESPACE": l.shop, "SERVICE_ACCOUNT": "web"}), codes.OK},
		"no account":                     {bearer, nil, node(l.shop, map[string]any{"NAMESPACE": l.shop}), codes.OK},
		"no namespace":                   {bearer, nil, node(l.shop, map[string]any{"SERVICE_ACCOUNT": "web"}), codes.OK},
		"no metadata":                    {bearer, nil, node(l.shop, nil), codes.OK},
		"no credentials":                 {none, nil, node(l.shop, nil), codes.Unauthenticated},
		"another namespace":              {bearer, nil, node(l.bank, map[string]any{"NAMESPACE": l.bank, "SERVICE_ACCOUNT": "web"}), codes.PermissionDenied},
		"another namespace, certificate": {none, own, node(l.bank, map[string]any{"NAMESPACE": l.bank, "SERVICE_ACCOUNT": "web"}), codes.PermissionDenied},
		"another in metadata only":       {bearer, nil, node(l.shop, map[string]any{"NAMESPACE": l.bank}), codes.PermissionDenied},
		"another in the ID only":         {bearer, nil, node(l.bank, nil), codes.PermissionDenied},
		"another account":                {bearer, nil, node(l.shop, map[string]any{"NAMESPACE": l.shop, "SERVICE_ACCOUNT": "api"}), codes.PermissionDenied},
		"the control plane's":            {bearer, nil, node(l.control, map[string]any{"SERVICE_ACCOUNT": "istiod"}), codes.PermissionDenied},
		"a namespace with this prefix":   {bearer, nil, node(l.shop+"-2", nil), codes.PermissionDenied},
		"garbage as token":               {bearing(none, "x.y.z"), nil, node(l.shop, nil), codes.Unauthenticated},
		"payload null":                   {bearing(none, ".bnVsbM."), nil, node(l.shop, nil), codes.Unauthenticated},
		"an expired token":               {bearing(none, l.ended), nil, node(l.shop, nil), codes.Unauthenticated},
		"a token of a deleted account":   {bearing(none, l.gone), nil, node(l.shop, nil), codes.Unauthenticated},
		"a token for another audience":   {bearing(none, l.token("web", "other")), nil, node(l.shop, nil), codes.Unauthenticated},
		"64 KB of token":                 {bearing(none, strings.Repeat("a", 60<<10)), nil, node(l.shop, nil), codes.Unauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := l.ask(tt.ctx, tt.own, tt.node, api.ClusterType); status.Code(err) != tt.want {
				t.Errorf("the stream ends with %v, want %v", err, tt.want)
			}
		})
	}
	roots, err := l.ask(bearer, nil, node(l.shop, nil), api.ProxyConfigType)
	if err != nil {
		t.Fatal(err)
	}
	got := new(meshconfig.ProxyConfig)
	if err := roots.Resources[0].UnmarshalTo(got); err != nil {
		t.Fatal(err)
	}
	if len(got.CaCertificatesPem) != 1 || strings.TrimSpace(got.CaCertificatesPem[0]) != strings.TrimSpace(l.root) {
		t.Errorf("proxies are sent the roots %q", got.CaCertificatesPem)
	}
}

// TestSettingsOfXDSIdentity checks XDS_AUTH=false and PILOT_ENABLE_XDS_IDENTITY_CHECK=false.
func TestSettingsOfXDSIdentity(t *testing.T) {
	t.Run("XDS_AUTH=false", func(t *testing.T) {
		l := startLaptop(t, func(o *Options) { o.Authority.AuthenticateXDS = false })
		if _, err := l.ask(t.Context(), nil, node("shop", nil), api.ClusterType); err != nil {
			t.Error(err)
		}
		token := l.token("shop", "web", time.Hour, "istio-ca")
		if _, err := l.ask(bearing(t.Context(), token), nil, node("bank", nil), api.ClusterType); status.Code(err) != codes.PermissionDenied {
			t.Errorf("a proxy with the node of another namespace: %v, want PermissionDenied", err)
		}
	})
	t.Run("PILOT_ENABLE_XDS_IDENTITY_CHECK=false", func(t *testing.T) {
		l := startLaptop(t, func(o *Options) { o.Authority.CheckXDSIdentity = false })
		token := l.token("shop", "web", time.Hour, "istio-ca")
		if _, err := l.ask(bearing(t.Context(), token), nil, node("bank", nil), api.ClusterType); err != nil {
			t.Error(err)
		}
		if _, err := l.ask(t.Context(), nil, node("bank", nil), api.ClusterType); status.Code(err) != codes.Unauthenticated {
			t.Errorf("a proxy without credentials: %v, want Unauthenticated", err)
		}
	})
}
