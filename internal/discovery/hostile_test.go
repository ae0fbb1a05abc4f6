package discovery

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/structpb"
	security "istio.io/api/security/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// TestHostileSigningRequests sends hostile signing requests with valid tokens to the certificate
// service. The signed certificate has the caller's identity and key, and nothing else from the
// request.
func TestHostileSigningRequests(t *testing.T) {
	scorecard.Check(t, 37)
	inBothModes(t, testHostileSigningRequests)
}

func testHostileSigningRequests(t *testing.T, l *mode) {
	t.Setenv("GODEBUG", "rsa1024min=0") // to create the weak keys that clients may send
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	odd, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	uri := func(text string) *url.URL {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	authority, err := asn1.Marshal(struct{ IsCA bool }{true})
	if err != nil {
		t.Fatal(err)
	}
	many := &x509.CertificateRequest{}
	for i := range 100 {
		many.DNSNames = append(many.DNSNames, fmt.Sprintf("host-%d.example.com", i))
	}
	huge := []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Value: make([]byte, 64<<10)}}
	for name, tt := range map[string]struct {
		ask  *x509.CertificateRequest
		key  crypto.Signer
		spin func(der []byte) []byte
		want codes.Code
	}{
		"another identity":   {ask: &x509.CertificateRequest{URIs: []*url.URL{uri("spiffe://cluster.local/ns/istio-system/sa/istiod")}}},
		"two identities":     {ask: &x509.CertificateRequest{URIs: []*url.URL{uri("spiffe://cluster.local/ns/a/sa/b"), uri("spiffe://evil/ns/a/sa/b")}}},
		"DNS names":          {ask: &x509.CertificateRequest{DNSNames: []string{"istiod.istio-system.svc", "*"}, Subject: pkix.Name{CommonName: "istiod", Organization: []string{"system:masters"}}}},
		"addresses":          {ask: &x509.CertificateRequest{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}},
		"to be an authority": {ask: &x509.CertificateRequest{ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: authority}}}},
		"100 names":          {ask: many},
		"a tiny key":         {key: small, want: codes.InvalidArgument},
		"an odd curve":       {key: odd, want: codes.InvalidArgument},
		"a bad signature":    {spin: func(der []byte) []byte { der[len(der)-5] ^= 1; return der }, want: codes.InvalidArgument},
		"cut off":            {spin: func(der []byte) []byte { return der[:len(der)/2] }, want: codes.InvalidArgument},
		"too much":           {ask: &x509.CertificateRequest{ExtraExtensions: huge}, want: codes.InvalidArgument},
	} {
		if tt.ask == nil {
			tt.ask = &x509.CertificateRequest{}
		}
		if tt.key == nil {
			tt.key = pki.NewKey()
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, tt.ask, tt.key)
		if err != nil {
			t.Fatal(err)
		}
		if tt.spin != nil {
			der = tt.spin(der)
		}
		csr := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
		own, err := l.certificateFor(bearing(t.Context(), l.token("web", "istio-ca")), nil, tt.key, &security.IstioCertificateRequest{Csr: csr})
		if status.Code(err) != tt.want {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		if err != nil {
			continue
		}
		leaf := own.Leaf
		id, err := spiffe.LeafID(leaf)
		if err != nil || id.String() != "spiffe://cluster.local/ns/"+l.shop+"/sa/web" || leaf.IsCA || leaf.KeyUsage&x509.KeyUsageCertSign != 0 ||
			len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses)+len(leaf.Subject.Names) > 0 || len(leaf.URIs) != 1 {
			t.Errorf("%s: certificate for %s (%v), CA %v, names %v %v %v %v", name, id, err, leaf.IsCA, leaf.DNSNames, leaf.IPAddresses, leaf.URIs, leaf.Subject)
		}
	}
}

// TestHostileTokens sends invalid tokens to both services of the port: each is refused without a
// panic. CVE-2022-23635 was a payload of null.
func TestHostileTokens(t *testing.T) {
	scorecard.Check(t, 37)
	inBothModes(t, testHostileTokens)
}

func testHostileTokens(t *testing.T, l *mode) {
	encode := base64.RawURLEncoding.EncodeToString
	good := strings.Split(l.token("web", "istio-ca"), ".")
	var tokens []string
	for _, payload := range []string{"null", "[]", "1", `""`, "{}", strings.Repeat("[", 3000), `{"iss":null,"sub":{"a":1},"aud":[[]],"exp":"x"}`, `{"sub":":::"}`, "\x00\xff"} {
		tokens = append(tokens, good[0]+"."+encode([]byte(payload))+"."+good[2], "."+encode([]byte(payload))+".", encode([]byte(`{"alg":"none"}`))+"."+encode([]byte(payload))+".")
	}
	tokens = append(tokens, l.ended, l.gone, l.token("web", "other"), good[0]+"."+good[1]+".", "..", ".", "x", strings.Repeat("a", 15<<10), strings.Repeat("a.", 10_000), strings.Repeat("a", 60<<10))
	for _, token := range tokens {
		if _, err := l.certificate(bearing(t.Context(), token), nil, new(security.IstioCertificateRequest)); status.Code(err) != codes.Unauthenticated {
			t.Errorf("certificate request with the token %.60q: %v, want Unauthenticated", token, err)
		}
		if _, err := l.ask(bearing(t.Context(), token), nil, node(l.shop, nil), api.ClusterType); status.Code(err) != codes.Unauthenticated {
			t.Errorf("stream with the token %.60q: %v, want Unauthenticated", token, err)
		}
	}
	if _, err := l.certificate(bearing(t.Context(), l.token("web", "istio-ca")), nil, new(security.IstioCertificateRequest)); err != nil {
		t.Errorf("a valid token afterwards failed: %v", err)
	}
}

// TestHostileNodes: the node that a proxy sends may be of any depth, length and width. An
// unauthenticated client gets no stream; for an authenticated one at most its own stream ends.
// T-XDS-DEPTH.
func TestHostileNodes(t *testing.T) {
	l := startLaptop(t, func(*Options) {})
	bearer := bearing(t.Context(), l.token("shop", "web", 3600e9, "istio-ca"))
	wide := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for i := range longtest.Rounds(10_000, 100_000) {
		wide.Fields[fmt.Sprint(i)] = structpb.NewNumberValue(float64(i))
	}
	// Messages that protobuf libraries refuse to encode are encoded by hand.
	encoded := map[string][]byte{"deep": deepStruct(100_000), "very wide": wideStruct(1_000_000)}
	for name, md := range map[string]*structpb.Struct{
		"deep": nil, "very wide": nil, "wide": wide, "wide labels": {Fields: map[string]*structpb.Value{"LABELS": structpb.NewStructValue(wide)}},
		"4 MB":        {Fields: map[string]*structpb.Value{"NAME": structpb.NewStringValue(strings.Repeat("x", 4<<20))}},
		"wrong types": {Fields: map[string]*structpb.Value{"LABELS": structpb.NewStringValue("x"), "INSTANCE_IPS": structpb.NewBoolValue(true), "PROXY_CONFIG": structpb.NewListValue(nil)}},
	} {
		n := node("shop", nil)
		n.Metadata = md
		if raw := encoded[name]; raw != nil {
			n.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, metadataField, protowire.BytesType), raw))
		}
		if _, err := l.ask(t.Context(), nil, n, api.ClusterType); status.Code(err) == codes.OK {
			t.Errorf("%s: a client without credentials has a stream", name)
		}
		if _, err := l.ask(bearer, nil, n, api.ClusterType); encoded[name] != nil && status.Code(err) == codes.OK {
			t.Errorf("%s: the node was accepted", name)
		}
		if _, err := l.ask(bearer, nil, node("shop", nil), api.ClusterType); err != nil {
			t.Errorf("after a node that is %s: %v", name, err)
		}
	}
}

// metadataField is the field number of Node.metadata.
const metadataField = 3

// deepStruct encodes a google.protobuf.Struct that is nested to the given depth, in time and memory
// proportional to it: sizes are computed first, then the parts are written from the outermost
// inwards.
func deepStruct(depth int) []byte {
	// Each level is fields{key "a", value{struct_value: the next one}}.
	sizes := make([][3]int, depth) // of a level's entry, its value, and the Struct inside it
	inner := 0
	for i := depth - 1; i >= 0; i-- {
		value := 1 + protowire.SizeBytes(inner)
		entry := 3 + 1 + protowire.SizeBytes(value)
		sizes[i] = [3]int{entry, value, inner}
		inner = 1 + protowire.SizeBytes(entry)
	}
	var b []byte
	for _, s := range sizes {
		b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.BytesType), uint64(s[0]))
		b = protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), "a")
		b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.BytesType), uint64(s[1]))
		b = protowire.AppendVarint(protowire.AppendTag(b, 5, protowire.BytesType), uint64(s[2]))
	}
	return b
}

// wideStruct encodes a google.protobuf.Struct with the given number of fields, all true.
func wideStruct(fields int) []byte {
	var b []byte
	for i := range fields {
		entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), fmt.Sprint(i))
		entry = protowire.AppendBytes(protowire.AppendTag(entry, 2, protowire.BytesType), []byte{4 << 3, 1})
		b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), entry)
	}
	return b
}

// TestSecretsOfOtherNamespaces: a gateway requests keys by all names of the secrets of its
// namespace and of another one. It receives only those of its own. T-GW-SECRET, T-SDS-CACHE.
func TestSecretsOfOtherNamespaces(t *testing.T) {
	scorecard.Check(t, 36)
	mine, others := pki.Authority("mine"), pki.Authority("others")
	l := startLaptop(t, func(*Options) {})
	secret := func(namespace, name string, p *pki.Pair) string {
		encode := base64.StdEncoding.EncodeToString
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: %s}\ntype: kubernetes.io/tls\ndata: {tls.crt: %s, tls.key: %s}\n---\n", name, namespace, encode(p.CertificatePEM()), encode(p.KeyPEM()))
	}
	l.write("secrets.yaml", secret("shop", "web-cert", mine)+secret("shop", "same", mine)+secret("bank", "same", others)+secret("bank", "bank-cert", others)+secret("istio-system", "bank-cert", others))
	get := func(namespace, account string, names ...string) string {
		t.Helper()
		var got []string
		l.eventually("secrets of "+namespace, func() error {
			ctx, cancel := context.WithTimeout(bearing(t.Context(), l.token(namespace, account, 3600e9, "istio-ca")), patience)
			defer cancel()
			st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(l.dial(nil)).StreamAggregatedResources(ctx)
			if err != nil {
				return err
			}
			n := node(namespace, nil)
			n.Id = "router~10.0.0.1~gw." + namespace + "~" + namespace + ".svc.cluster.local"
			_ = st.Send(&discoveryv3.DiscoveryRequest{Node: n, TypeUrl: api.SecretType, ResourceNames: names}) // Recv returns the status
			answer, err := st.Recv()
			if err != nil {
				return err
			}
			if len(answer.Resources) == 0 {
				return fmt.Errorf("no secrets of %v", names)
			}
			got = nil
			for _, r := range answer.Resources {
				got = append(got, string(r.Value))
			}
			return nil
		})
		return strings.Join(got, "\n")
	}
	names := []string{
		"kubernetes://web-cert", "kubernetes://same", "kubernetes://bank-cert", "kubernetes://bank/bank-cert", "kubernetes://bank/same", "kubernetes-gateway://bank/bank-cert", "kubernetes-gateway://bank/same",
		"kubernetes://istio-system/bank-cert", "kubernetes://../bank/bank-cert", "kubernetes://shop/../bank/bank-cert", "bank-cert", "bank/bank-cert", "kubernetes://bank/bank-cert-cacert", "configmap://bank/bank-cert",
	}
	for range 2 { // the cache must not serve one gateway's secrets to the other, in either order
		text := get("shop", "web", names...)
		if !strings.Contains(text, string(mine.KeyPEM())) {
			t.Error("a gateway does not receive its own key")
		}
		if strings.Contains(text, string(others.KeyPEM())) || strings.Contains(text, string(others.CertificatePEM())) {
			t.Error("a gateway receives secrets of another namespace")
		}
		text = get("istio-system", "istiod", names...)
		if !strings.Contains(text, string(others.KeyPEM())) || strings.Contains(text, string(mine.KeyPEM())) {
			t.Error("the other gateway receives secrets of another namespace")
		}
	}
}

// TestConfigIsForControlPlanes: a workload that requests the mesh's configuration as another
// control plane would receives none, in either form of request. Neither does a client without
// credentials. T-MCP-AUTHZ.
func TestConfigIsForControlPlanes(t *testing.T) {
	l := startLaptop(t, func(*Options) {})
	workload := bearing(t.Context(), l.token("shop", "web", 3600e9, "istio-ca"))
	for _, typeURL := range []string{"networking.istio.io/v1/VirtualService", "networking.istio.io/v1alpha3/WorkloadGroup", "core/v1alpha1/MeshConfig", "security.istio.io/v1/AuthorizationPolicy"} {
		n := node("shop", map[string]any{"GENERATOR": "api"})
		if answer, err := l.ask(workload, nil, n, typeURL); status.Code(err) != codes.PermissionDenied {
			t.Errorf("a workload requests %s: %d objects, %v", typeURL, len(answer.GetResources()), err)
		}
		if answer, err := l.ask(t.Context(), nil, n, typeURL); status.Code(err) != codes.Unauthenticated {
			t.Errorf("a client without credentials requests %s: %d objects, %v", typeURL, len(answer.GetResources()), err)
		}
	}
}
