package target

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/grpc/credentials"

	"github.com/meshpilot/meshpilot/test/perf/workload"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// Keys are the key files of a control plane, and the authority that issues proxies' certificates.
type Keys struct {
	// Certificate, Key and Authority are paths of PEM files.
	Certificate, Key, Authority string

	ca     *pki.Pair
	mu     sync.Mutex
	issued map[string]credentials.TransportCredentials
}

// serverName is what proxies know the control plane as.
const serverName = "istiod.istio-system.svc"

// NewKeys makes keys in a directory.
func NewKeys(dir string) (*Keys, error) {
	k := &Keys{
		Certificate: filepath.Join(
			dir,
			"tls.crt",
		),
		Key:       filepath.Join(dir, "tls.key"),
		Authority: filepath.Join(dir, "ca.crt"),
		ca:        pki.Authority("bench root"),
		issued:    map[string]credentials.TransportCredentials{},
	}
	server := k.ca.Issue(&x509.Certificate{
		Subject: pkix.Name{
			CommonName: serverName,
		},
		DNSNames:    []string{serverName},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	if err := server.WriteFiles(k.Certificate, k.Key); err != nil {
		return nil, fmt.Errorf("make keys: %w", err)
	}
	if err := os.WriteFile(k.Authority, k.ca.CertificatePEM(), 0o600); err != nil {
		return nil, fmt.Errorf("make keys: %w", err)
	}
	return k, nil
}

// Credentials are the credentials of a proxy: a certificate with its SPIFFE ID.
func (k *Keys) Credentials(n workload.Node) (credentials.TransportCredentials, error) {
	id := "spiffe://cluster.local/ns/" + n.Namespace + "/sa/" + n.ServiceAccount
	k.mu.Lock()
	defer k.mu.Unlock()
	if c := k.issued[id]; c != nil {
		return c, nil
	}
	uri, err := url.Parse(id)
	if err != nil {
		return nil, fmt.Errorf("identity %q: %w", id, err)
	}
	own := k.ca.Issue(&x509.Certificate{URIs: []*url.URL{uri}})
	c := credentials.NewTLS(&tls.Config{
		MinVersion:   tls.VersionTLS12,
		RootCAs:      k.ca.Pool(),
		ServerName:   serverName,
		Certificates: []tls.Certificate{own.TLS()},
	})
	k.issued[id] = c
	return c, nil
}
