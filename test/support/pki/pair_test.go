package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"path/filepath"
	"testing"
)

func TestIssue(t *testing.T) {
	root, other := Authority("root"), Authority("other")
	leaf := root.Issue(&x509.Certificate{DNSNames: []string{"a.example"}})
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		verify := func(a *Pair, name string) error {
			_, err := leaf.Certificate.Verify(x509.VerifyOptions{Roots: a.Pool(), DNSName: name, KeyUsages: []x509.ExtKeyUsage{usage}})
			return err
		}
		if err := verify(root, "a.example"); err != nil {
			t.Errorf("it is not trusted: %v", err)
		}
		if verify(other, "a.example") == nil || verify(root, "b.example") == nil {
			t.Error("another authority, or another name, is trusted")
		}
	}
	cert, key := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	if err := leaf.WriteFiles(cert, key); err != nil {
		t.Fatal(err)
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		t.Errorf("the files are no pair: %v", err)
	}
	if again := root.IssueTo(leaf.Key, &x509.Certificate{}); again.Key != leaf.Key || again.Certificate.SerialNumber.Cmp(leaf.Certificate.SerialNumber) == 0 {
		t.Error("it is not another certificate for the same key")
	}
}

func TestRevoke(t *testing.T) {
	root := Authority("root")
	leaf := root.Issue(&x509.Certificate{})
	block, _ := pem.Decode(root.Revoke(leaf.Certificate.SerialNumber))
	list, err := x509.ParseRevocationList(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := list.CheckSignatureFrom(root.Certificate); err != nil {
		t.Error(err)
	}
	if r := list.RevokedCertificateEntries; len(r) != 1 || r[0].SerialNumber.Cmp(leaf.Certificate.SerialNumber) != 0 {
		t.Errorf("it revokes %v", r)
	}
}
