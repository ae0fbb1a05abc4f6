package identity

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/agent/secret"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// TestPresentedChain tests that the chain of the workload's certificate ends with the root that
// signed it, once, whatever form the authority's response has.
func TestPresentedChain(t *testing.T) {
	other := string(pki.Authority("other").CertificatePEM())
	for name, respond := range map[string]func(w *world, leaf, between string) []string{
		"leaf and root":                 func(w *world, leaf, _ string) []string { return []string{leaf, w.rootPEM()} },
		"intermediate":                  func(w *world, leaf, between string) []string { return []string{leaf, between, w.rootPEM()} },
		"several roots in the last":     func(w *world, leaf, _ string) []string { return []string{leaf, other + w.rootPEM()} },
		"the root is in the chain, too": func(w *world, leaf, _ string) []string { return []string{leaf, w.rootPEM(), w.rootPEM()} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			want := 2
			intermediate := w.root.Issue(&x509.Certificate{
				SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "between"}, IsCA: true, BasicConstraintsValid: true,
				KeyUsage: x509.KeyUsageCertSign, NotAfter: w.clock.Now().Add(48 * time.Hour),
			})
			w.answer(func(key crypto.PublicKey) ([]string, error) {
				signer := w.root
				if name == "intermediate" {
					signer, want = intermediate, 3
				}
				leaf := signer.Sign(key, &x509.Certificate{NotAfter: w.clock.Now().Add(24 * time.Hour)})
				return respond(w, string(leaf), string(intermediate.CertificatePEM())), nil
			})
			w.clock.next(t)
			chain := string(w.await(t, secret.WorkloadName, 0).Chain)
			if n := strings.Count(chain, "BEGIN CERTIFICATE"); n != want || !strings.HasSuffix(chain, w.rootPEM()) {
				t.Errorf("%d certificates, want %d with the root at the end:\n%s", n, want, chain)
			}
		})
	}
}

// TestChainOfAnotherRoot tests that a chain stays as it is if no listed root signed it.
func TestChainOfAnotherRoot(t *testing.T) {
	leaf := pki.Authority("root").Issue(&x509.Certificate{}).CertificatePEM()
	chain, err := appendRoot(leaf, pki.Authority("root").CertificatePEM())
	if err != nil || string(chain) != string(leaf) {
		t.Errorf("%v\n%s", err, chain)
	}
}

func (w *world) rootPEM() string { return string(w.root.CertificatePEM()) }
