package pki

import (
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Files are the PEM files of a server that requires client certificates, and of its clients.
type Files struct {
	// ServerName is the only name or address in the server's certificate.
	ServerName string
	// CAFile has the root of all certificates.
	CAFile string
	// CertFile and KeyFile are the client's certificate and its key.
	CertFile, KeyFile string
	// ServerCertFile and ServerKeyFile are those of the server. The server may use them as a client of
	// other servers.
	ServerCertFile, ServerKeyFile string
	// CA has issued them.
	CA *Pair
}

// NewFiles writes certificates of a new authority to a folder that is deleted with the test. serverName
// is a DNS name or an IP address.
func NewFiles(t testing.TB, serverName string) *Files {
	t.Helper()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	f := &Files{
		ServerName: serverName, CAFile: in("ca.pem"), CertFile: in("client.pem"), KeyFile: in("client-key.pem"),
		ServerCertFile: in("server.pem"), ServerKeyFile: in("server-key.pem"), CA: Authority("servers"),
	}
	if err := os.WriteFile(f.CAFile, f.CA.CertificatePEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	server := &x509.Certificate{DNSNames: []string{serverName}}
	if ip := net.ParseIP(serverName); ip != nil {
		server = &x509.Certificate{IPAddresses: []net.IP{ip}}
	}
	if err := f.CA.Issue(server).WriteFiles(f.ServerCertFile, f.ServerKeyFile); err != nil {
		t.Fatal(err)
	}
	f.IssueClient(t, f.CertFile, f.KeyFile)
	return f
}

// IssueClient writes another client certificate of the authority to these files.
func (f *Files) IssueClient(t testing.TB, certFile, keyFile string) {
	t.Helper()
	template := &x509.Certificate{
		DNSNames:    []string{"client"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if err := f.CA.Issue(template).WriteFiles(certFile, keyFile); err != nil {
		t.Fatal(err)
	}
}
