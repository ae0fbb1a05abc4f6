package discovery

import (
	"crypto/x509"
	"encoding/json"
	"slices"
	"testing"
	"time"

	security "istio.io/api/security/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
)

// TestKnownCertificates checks the list of certificates of a control plane whose authority has
// issued one to a workload: it contains the certificates in its directory, the ones that
// clients see, and no keys.
func TestKnownCertificates(t *testing.T) {
	l := startLaptop(t, func(*Options) {})
	own, err := l.certificate(bearing(t.Context(), l.token("shop", "web", time.Hour, "istio-ca")), nil, &security.IstioCertificateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := l.get(readapi.Prefix + "/certificates")
	if err != nil {
		t.Fatal(err)
	}
	var list readapi.CertificateList
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	find := func(use readapi.CertificateUse) readapi.Certificate {
		i := slices.IndexFunc(list.Certificates, func(c readapi.Certificate) bool { return c.Use == use })
		if i < 0 {
			t.Fatalf("no certificate for %s in %s", use, text)
		}
		return list.Certificates[i]
	}
	root, serving, workload := find(readapi.RootCertificate), find(readapi.ServingCertificate), find(readapi.WorkloadCertificate)
	if _, err := own.Leaf.Verify(x509.VerifyOptions{Roots: l.roots(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		t.Fatal(err)
	}
	if root.Name != own.Leaf.Issuer.String() || root.State != readapi.CertificateValid {
		t.Errorf("root certificate = %+v", root)
	}
	if !slices.Contains(serving.Names, "istiod.istio-system.svc") || serving.State != readapi.CertificateValid {
		t.Errorf("serving certificate = %+v", serving)
	}
	if workload.Name != "spiffe://cluster.local/ns/shop/sa/web" || workload.Namespace != "shop" ||
		workload.Serial != own.Leaf.SerialNumber.Text(16) || !workload.NotAfter.Equal(own.Leaf.NotAfter) {
		t.Errorf("workload certificate = %+v", workload)
	}
}
