package target

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/meshpilot/meshpilot/test/bench/workload"
)

// Keys are those of a control plane, in files, and the authority that proxies' certificates are from.
type Keys struct {
	// Certificate, Key and Authority are paths of PEM files.
	Certificate, Key, Authority string

	ca     *x509.Certificate
	caKey  *ecdsa.PrivateKey
	pool   *x509.CertPool
	mu     sync.Mutex
	issued map[string]credentials.TransportCredentials
}

// serverName is what proxies know the control plane as.
const serverName = "istiod.istio-system.svc"

// NewKeys makes keys in a directory.
func NewKeys(dir string) (*Keys, error) {
	k := &Keys{
		Certificate: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), Authority: filepath.Join(dir, "ca.crt"),
		issued: map[string]credentials.TransportCredentials{}, pool: x509.NewCertPool(),
	}
	var err error
	if k.caKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("make keys: %w", err)
	}
	root := template("bench root")
	root.IsCA, root.BasicConstraintsValid, root.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, root, root, k.caKey.Public(), k.caKey)
	if err != nil {
		return nil, fmt.Errorf("make keys: %w", err)
	}
	if k.ca, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("make keys: %w", err)
	}
	k.pool.AddCert(k.ca)
	server := template(serverName)
	server.DNSNames, server.IPAddresses = []string{serverName}, []net.IP{net.IPv4(127, 0, 0, 1)}
	cert, err := k.issue(server)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalECPrivateKey(cert.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		return nil, fmt.Errorf("make keys: %w", err)
	}
	for path, block := range map[string]*pem.Block{
		k.Certificate: {Type: "CERTIFICATE", Bytes: cert.Certificate[0]}, k.Key: {Type: "EC PRIVATE KEY", Bytes: secret},
		k.Authority: {Type: "CERTIFICATE", Bytes: der},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, fmt.Errorf("make keys: %w", err)
		}
	}
	return k, nil
}

func template(name string) *x509.Certificate {
	const life = 24 * time.Hour
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-life), NotAfter: now.Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

func (k *Keys) issue(t *x509.Certificate) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make keys: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, t, k.ca, key.Public(), k.caKey)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make keys: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// Credentials are those of a proxy: a certificate with its SPIFFE ID.
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
	t := template("")
	t.URIs = []*url.URL{uri}
	cert, err := k.issue(t)
	if err != nil {
		return nil, err
	}
	c := credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: k.pool, ServerName: serverName, Certificates: []tls.Certificate{cert},
	})
	k.issued[id] = c
	return c, nil
}
