package cluster

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

// keys are the keys of one cluster. One authority signs everything.
type keys struct {
	dir string
	ca  *pki.Pair
}

// newKeys writes the authority's pair (ca.crt, ca.key) and the keys of service accounts' tokens.
func newKeys(dir string) (*keys, error) {
	k := &keys{dir: dir, ca: pki.Authority("test-cluster")}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := k.ca.WriteFiles(k.filePath("ca.crt"), k.filePath("ca.key")); err != nil {
		return nil, err
	}
	// RSA, because some clients verify tokens themselves and support nothing newer.
	signer, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		return nil, err
	}
	for name, block := range map[string]*pem.Block{
		"service-account.key": {Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(signer)},
		"service-account.pub": {Type: "PUBLIC KEY", Bytes: public},
	} {
		if err := os.WriteFile(k.filePath(name), pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, err
		}
	}
	return k, nil
}

func (k *keys) filePath(name string) string { return filepath.Join(k.dir, name) }

// writeServingPair writes a serving certificate: NAME.crt and NAME.key.
func (k *keys) writeServingPair(name string, addresses []string, names ...string) error {
	c := &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: names}
	for _, a := range addresses {
		ip := net.ParseIP(a)
		if ip == nil {
			return fmt.Errorf("make a certificate of %s: %q is no address", name, a)
		}
		c.IPAddresses = append(c.IPAddresses, ip)
	}
	return k.ca.Issue(c).WriteFiles(k.filePath(name+".crt"), k.filePath(name+".key"))
}

// userPair makes a client's pair; Kubernetes reads the user from the common name and the groups
// from the organisations.
func (k *keys) userPair(name string, groups ...string) *pki.Pair {
	return k.ca.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: name, Organization: groups}})
}

// restConfig returns a configuration of a client of the API server at an address (host:port),
// without credentials.
func (k *keys) restConfig(address string) *rest.Config {
	return &rest.Config{
		Host:            "https://" + address,
		TLSClientConfig: rest.TLSClientConfig{CAData: k.ca.CertificatePEM()},
		// Tests wait for their own requests, and the server limits itself.
		QPS: 500, Burst: 1000,
	}
}

// userConfig is config for a user.
func (k *keys) userConfig(address, name string, groups ...string) *rest.Config {
	config, pair := k.restConfig(address), k.userPair(name, groups...)
	config.CertData, config.KeyData = pair.CertificatePEM(), pair.KeyPEM()
	return config
}

// WriteKubeconfig writes a configuration to a file.
func WriteKubeconfig(path string, config *rest.Config) error {
	const name = "cluster"
	out := clientcmdapi.NewConfig()
	out.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   config.Host,
		CertificateAuthorityData: config.CAData,
		TLSServerName:            config.ServerName,
		InsecureSkipTLSVerify:    config.Insecure,
	}
	out.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
	}
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	out.CurrentContext = name
	if err := clientcmd.WriteToFile(*out, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
