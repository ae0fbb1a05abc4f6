package ca

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

const limit = 20 * time.Second

// selfSigned makes the files of a root.
func selfSigned(t testing.TB) Files {
	t.Helper()
	f, err := SelfSigned{
		TrustDomain: "cluster.local",
		Lifetime:    10 * 365 * 24 * time.Hour,
	}.NewRoot(rand.Reader, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// authority returns an Authority that signs with files.
func authority(t testing.TB, f Files, o AuthorityOptions) *Authority {
	t.Helper()
	a := NewAuthority(o)
	if _, err := a.ReplaceMaterial(f); err != nil {
		t.Fatal(err)
	}
	return a
}

// filesOfPairs returns the files of an operator: the signing certificate, its issuers and the
// roots.
func filesOfPairs(t testing.TB, signing *pki.Pair, above []*pki.Pair, roots ...*pki.Pair) Files {
	t.Helper()
	f := Files{Certificate: signing.CertificatePEM(), Key: signing.KeyPEM()}
	for _, p := range above {
		f.Chain = append(f.Chain, p.CertificatePEM()...)
	}
	for _, r := range roots {
		f.Roots = append(f.Roots, r.CertificatePEM()...)
	}
	return f
}

// intermediate makes an authority that another one has signed.
func intermediate(of *pki.Pair, template *x509.Certificate) *pki.Pair {
	template.IsCA, template.Subject = true, pkix.Name{CommonName: "intermediate"}
	return of.Issue(template)
}

func parseID(t testing.TB, text string) spiffe.ID {
	t.Helper()
	id, err := spiffe.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// request makes a certificate request in PEM.
func request(t testing.TB, template *x509.CertificateRequest, key crypto.Signer) []byte {
	t.Helper()
	if key == nil {
		key = pki.NewKey()
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// lint checks a leaf by the rules of X509-SVID and of the mesh. T-SVID.
func lint(t testing.TB, i Issued, id spiffe.ID, now time.Time) {
	t.Helper()
	leaf := i.Chain[0]
	named, err := spiffe.LeafID(leaf)
	if err != nil || named != id {
		t.Errorf("the leaf is of %s (%v), want %s", named, err, id)
	}
	if len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses) > 0 || len(leaf.Subject.Names) > 0 ||
		leaf.IsCA ||
		len(leaf.Extensions) != 5 {
		t.Errorf("the leaf has more than its ID: %v %v %v, %d extensions", leaf.DNSNames,
			leaf.IPAddresses, leaf.Subject, len(leaf.Extensions))
	}
	if s := leaf.SerialNumber; s.Sign() <= 0 || s.BitLen() > 128 {
		t.Errorf("the serial number is %v", s)
	}
	for _, c := range append(i.Chain[1:], i.Roots[0]) {
		if len(i.Roots) == 1 && leaf.NotAfter.After(c.NotAfter) {
			t.Errorf("NotAfter of the leaf = %v, after that of a certificate above it, %v", leaf.NotAfter, c.NotAfter)
		}
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range i.Roots {
		roots.AddCert(c)
	}
	for _, c := range i.Chain[1:] {
		between.AddCert(c)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if _, err := leaf.Verify(
			x509.VerifyOptions{
				Roots:         roots,
				Intermediates: between,
				CurrentTime:   now,
				KeyUsages:     []x509.ExtKeyUsage{usage},
			},
		); err != nil {
			t.Errorf("the leaf is not accepted: %v", err)
		}
	}
}
