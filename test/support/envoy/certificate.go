package envoy

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

// certificate is a pair of files with a self-signed certificate, in place of the files that a
// configuration names. secrets is an answer of SDS, in place of secrets over ADS.
type certificate struct{ chain, key, secrets string }

func newCertificate(dir string) (certificate, error) {
	c := certificate{
		chain:   filepath.Join(dir, "cert.pem"),
		key:     filepath.Join(dir, "key.pem"),
		secrets: filepath.Join(dir, "secrets.json"),
	}
	if err := os.WriteFile(c.secrets, []byte(`{"resources": []}`), 0o600); err != nil {
		return c, err
	}
	own := pki.SelfSigned(&x509.Certificate{
		DNSNames: []string{
			"localhost",
		},
		IsCA:     true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	})
	return c, own.WriteFiles(c.chain, c.key)
}

// substituteFiles returns the bootstrap with every certificate file of its TLS contexts replaced by
// c. Clusters are not left to ask for secrets over ADS: in a bootstrap, where ADS comes after the
// clusters, some of them crash Envoy then.
func (c certificate) substituteFiles(b *bootstrapv3.Bootstrap) (*bootstrapv3.Bootstrap, error) {
	b = proto.CloneOf(b)
	var sockets []*corev3.TransportSocket
	for _, cl := range b.GetStaticResources().GetClusters() {
		sockets = append(sockets, cl.GetTransportSocket())
		for _, m := range cl.GetTransportSocketMatches() {
			sockets = append(sockets, m.GetTransportSocket())
		}
	}
	for _, l := range b.GetStaticResources().GetListeners() {
		for _, fc := range append([]*listenerv3.FilterChain{l.GetDefaultFilterChain()}, l.GetFilterChains()...) {
			sockets = append(sockets, fc.GetTransportSocket())
		}
	}
	for _, s := range sockets {
		if err := c.patchSocket(s); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (c certificate) patchSocket(s *corev3.TransportSocket) error {
	packed := s.GetTypedConfig()
	if packed == nil {
		return nil
	}
	m, err := packed.UnmarshalNew()
	if err != nil {
		return fmt.Errorf("transport socket %q: %w", s.GetName(), err)
	}
	switch m := m.(type) {
	case tlsContext:
		c.replaceAll(m.GetCommonTlsContext())
	case wrapper:
		if err := c.patchSocket(m.GetTransportSocket()); err != nil {
			return err
		}
	}
	return packed.MarshalFrom(m)
}

// tlsContext is either side of TLS, wrapper a transport with another one inside, as that of the
// PROXY protocol.
type (
	tlsContext interface {
		GetCommonTlsContext() *tlsv3.CommonTlsContext
	}
	wrapper interface {
		GetTransportSocket() *corev3.TransportSocket
	}
)

func (c certificate) replaceAll(common *tlsv3.CommonTlsContext) {
	secrets := slices.Concat(common.GetTlsCertificateSdsSecretConfigs(), []*tlsv3.SdsSecretConfig{
		common.GetValidationContextSdsSecretConfig(),
		common.GetCombinedValidationContext().GetValidationContextSdsSecretConfig(),
	})
	for _, s := range secrets {
		if s.GetSdsConfig().GetAds() != nil {
			s.SdsConfig.ConfigSourceSpecifier = &corev3.ConfigSource_PathConfigSource{
				PathConfigSource: &corev3.PathConfigSource{Path: c.secrets},
			}
		}
	}
	for _, pair := range common.GetTlsCertificates() {
		replacePath(pair.GetCertificateChain(), c.chain)
		replacePath(pair.GetPrivateKey(), c.key)
	}
	for _, v := range []*tlsv3.CertificateValidationContext{
		common.GetValidationContext(), common.GetCombinedValidationContext().GetDefaultValidationContext(),
	} {
		replacePath(v.GetTrustedCa(), c.chain)
		if v.GetCrl().GetFilename() != "" {
			v.Crl = nil // a revocation list cannot be stood in for by a certificate
		}
	}
}

func replacePath(d *corev3.DataSource, path string) {
	if d.GetFilename() != "" {
		d.Specifier = &corev3.DataSource_Filename{Filename: path}
	}
}
