package ca

import (
	"bytes"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

// FuzzPEM parses certificates, keys and revocation lists. What is accepted is encoded so that it
// parses again.
func FuzzPEM(f *testing.F) {
	root := pki.Authority("root")
	f.Add(root.CertificatePEM())
	f.Add(root.KeyPEM())
	f.Add(append(bytes.Clone(root.CertificatePEM()), root.CertificatePEM()...))
	f.Add([]byte("-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nheader: x\n\nMAA=\n-----END CERTIFICATE-----\n# more"))
	f.Add([]byte("-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMAA=\n-----END EC PRIVATE KEY-----"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if list, err := ParseCertificates(text); err == nil {
			again, err := ParseCertificates(EncodeCertificates(list...))
			if err != nil || len(again) != len(list) || len(list) == 0 {
				t.Fatalf("%d certificates, then %d, %v", len(list), len(again), err)
			}
			for i := range list {
				if !list[i].Equal(again[i]) {
					t.Fatalf("certificate %d is another one", i)
				}
			}
		}
		if key, err := parseKey(text); err == nil {
			encoded, err := EncodeKey(key)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := parseKey(encoded); err != nil || !samePublicKey(again.Public(), key.Public()) {
				t.Fatalf("another key: %v", err)
			}
		}
		if lists, err := parseRevocationLists(text); err == nil {
			if again, err := parseRevocationLists(lists); err != nil || !bytes.Equal(lists, again) {
				t.Fatalf("%q is read as %q, %v", lists, again, err)
			}
		}
	})
}
