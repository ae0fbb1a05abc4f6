package hostileclients

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	security "istio.io/api/security/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// signingRequest returns a CSR for a new key, and the key.
func signingRequest() (csr string, key []byte, err error) {
	pair := pki.NewKey()
	der, err := x509.CreateCertificateRequest(rand.Reader, new(x509.CertificateRequest), pair)
	if err != nil {
		return "", nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(pair)
	if err != nil {
		return "", nil, err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), nil
}

// randomToken looks like a token of the API server and has not been seen before.
func randomToken(r *mathrand.Rand) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256","kid":"x"}`)) + "." + encode(fmt.Appendf(nil,
		`{"iss":"https://kubernetes.default.svc","aud":["istio-ca"],"exp":9999999999,"sub":"system:serviceaccount:a:b","n":%d}`, r.Uint64())) +
		"." + encode(random(r, 256))
}

// tokenReviews calls CreateCertificate and ADS with random tokens, for each of which the API server
// is asked.
func tokenReviews(ctx context.Context, a *attacker, r *mathrand.Rand, d door) error {
	conn, err := a.connect(d)
	if err != nil {
		return err
	}
	defer conn.Close()
	csr, _, err := signingRequest()
	if err != nil {
		return err
	}
	for n := int64(1); ctx.Err() == nil; n++ {
		call, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, "authorization",
			"Bearer "+randomToken(r)), 5*time.Second)
		if n%2 == 0 {
			_, err = security.NewIstioCertificateServiceClient(conn).CreateCertificate(call,
				&security.IstioCertificateRequest{Csr: csr})
		} else if st,
			e := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(call); e == nil {
			_ = st.Send(&discoveryv3.DiscoveryRequest{Node: a.node("stranger", nil),
				TypeUrl: api.ClusterType}) // Recv has the reason
			_, err = st.Recv()
		}
		cancel()
		a.count(n)
		if status.Code(err) == codes.OK {
			return fmt.Errorf("a random token was accepted")
		}
	}
	return err
}

// renew requests a certificate with that of a removed workload. The count of the attack is the
// number of issued certificates.
func renew(ctx context.Context, a *attacker, _ *mathrand.Rand, d door) error {
	conn, err := a.connect(d)
	if err != nil {
		return err
	}
	defer conn.Close()
	csr, _, err := signingRequest()
	if err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = security.NewIstioCertificateServiceClient(conn).CreateCertificate(call,
		&security.IstioCertificateRequest{Csr: csr})
	if err == nil {
		a.mu.Lock()
		a.result.Count++
		a.mu.Unlock()
	}
	return err
}
