package consul

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

// Certificates are the files of a server with Options.TLS and of its clients.
type Certificates struct {
	// ServerName is the only name in the server's certificate. It has no address.
	ServerName string
	// CAFile has the root of both certificates. CertFile and KeyFile are the client's.
	CAFile, CertFile, KeyFile string

	serverCertFile, serverKeyFile string
	ca                            *pki.Pair
}

// NewCertificates returns certificates of a new authority, in files that are deleted with the test.
func NewCertificates(t testing.TB) *Certificates {
	t.Helper()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	c := &Certificates{
		ServerName: "server.dc1.consul", CAFile: in("ca.pem"), CertFile: in("client.pem"), KeyFile: in("client-key.pem"),
		serverCertFile: in("server.pem"), serverKeyFile: in("server-key.pem"), ca: pki.Authority("consul"),
	}
	if err := os.WriteFile(c.CAFile, c.ca.CertificatePEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	server := c.ca.Issue(&x509.Certificate{
		DNSNames: []string{c.ServerName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	if err := server.WriteFiles(c.serverCertFile, c.serverKeyFile); err != nil {
		t.Fatal(err)
	}
	c.IssueClient(t, c.CertFile, c.KeyFile)
	return c
}

// IssueClient writes another client certificate of the authority to these files.
func (c *Certificates) IssueClient(t testing.TB, certFile, keyFile string) {
	t.Helper()
	client := c.ca.Issue(&x509.Certificate{DNSNames: []string{"client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err := client.WriteFiles(certFile, keyFile); err != nil {
		t.Fatal(err)
	}
}

// configuration returns the part of the server's configuration about TLS.
func (c *Certificates) configuration() string {
	return fmt.Sprintf(`tls { defaults { ca_file = %q, cert_file = %q, key_file = %q, verify_incoming = true } }`,
		c.CAFile, c.serverCertFile, c.serverKeyFile)
}
