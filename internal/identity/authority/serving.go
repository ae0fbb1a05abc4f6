package authority

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/meshpilot/meshpilot/internal/identity/ca"
)

// newServing returns the certificate of the TLS ports. The files of Options come first, or fixed
// paths for the provider custom. Then comes local if the provider is istiod or unset, and then a
// Kubernetes signer; it returns nil if there is none. It sets s.servedByOthers unless the source is
// files or the own authority.
func (s *Server) newServing(local *ca.Authority) *ca.ServingCertificate {
	var source ca.CertificateSource
	switch provider := s.o.Settings.CertProvider; {
	case s.o.ServingFiles.Certificate != "":
		source = s.o.ServingFiles
	case provider == providerCustom:
		source = ca.FileSource{
			Certificate: "./var/run/secrets/istiod/tls/tls.crt", Key: "./var/run/secrets/istiod/tls/tls.key",
			Roots: "./var/run/secrets/istiod/ca/root-cert.pem",
		}
	case (provider == "" || provider == providerIstiod) && local != nil:
		source = s.ownSource(local)
	default:
		source = s.kubernetesServing()
		s.servedByOthers = true
	}
	if source == nil {
		return nil
	}
	return ca.NewServingCertificate(source, s.log)
}

// ownSource returns the source of a serving certificate that the control plane's own authority
// signs, for the names and addresses in serviceHosts. Without an API server the certificate is also
// for localhost and the loopback addresses.
func (s *Server) ownSource(local *ca.Authority) ca.AuthoritySource {
	source := ca.AuthoritySource{Authority: local, KeyType: s.o.Settings.KeyType}
	source.Names, source.Addresses = ca.SplitHosts(s.o.Settings.serviceHosts(s.o.Namespace, s.o.Revision))
	if s.o.Client == nil { // Without Kubernetes, local clients do not use the DNS name of a Service.
		source.Names = append(source.Names, "localhost")
		source.Addresses = append(source.Addresses, net.IPv4(127, 0, 0, 1), net.IPv6loopback)
	}
	return source
}

// kubernetesServing returns the source of a serving certificate that a Kubernetes signer signs. It
// returns nil unless PILOT_CERT_PROVIDER names such a signer and there is an API server.
func (s *Server) kubernetesServing() ca.CertificateSource {
	signer, ok := strings.CutPrefix(s.o.Settings.CertProvider, providerKubernetes)
	if !ok || s.o.Client == nil {
		return nil
	}
	return kubernetesSource{s: s, signer: signer}
}

// kubernetesSource is a CertificateSource that has a Kubernetes signer sign the control plane's
// certificate.
type kubernetesSource struct {
	s      *Server
	signer string
}

// LoadCertificate generates a key and has a certificate for serviceHosts signed through a
// CertificateSigningRequest, with a lifetime of a day. It returns the certificate with the roots in
// PEM. These are signerRoots, or the issuer's roots if there are none. It returns an error if the
// signer does not sign, its certificate has another key, or there are no roots.
func (k kubernetesSource) LoadCertificate(ctx context.Context) (*tls.Certificate, []byte, error) {
	o := k.s.o
	key, err := o.Settings.KeyType.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	request, err := ca.NewServerRequest(rand.Reader, key, o.Settings.serviceHosts(o.Namespace, o.Revision))
	if err != nil {
		return nil, nil, err
	}
	text, err := ca.SigningRequests{Client: o.Client.Kubernetes}.Sign(ctx, ca.SigningRequest{
		CSR: request, Signer: k.signer, Lifetime: 24 * time.Hour,
		Usages: []certificatesv1.KeyUsage{
			certificatesv1.UsageDigitalSignature,
			certificatesv1.UsageKeyEncipherment,
			certificatesv1.UsageServerAuth,
		},
	})
	if err != nil {
		return nil, nil, err
	}
	private, err := ca.EncodeKey(key)
	if err != nil {
		return nil, nil, err
	}
	c, err := tls.X509KeyPair(text, private)
	if err != nil {
		return nil, nil, fmt.Errorf("the certificate that %s has signed: %w", k.signer, err)
	}
	roots := k.s.signerRoots(k.signer)
	if len(roots) == 0 && k.s.issuer != nil {
		roots, _ = k.s.issuer.Roots()
	}
	if len(roots) == 0 {
		return nil, nil, errors.New("there are no roots of " + k.signer +
			": meshConfig.caCertificates or an external root must name them")
	}
	return &c, ca.EncodeCertificates(roots...), nil
}

// SourceChanged returns the channel that is closed when the issuer's roots change, or nil without
// an issuer.
func (k kubernetesSource) SourceChanged() <-chan struct{} {
	if k.s.issuer == nil {
		return nil
	}
	_, changed := k.s.issuer.Roots()
	return changed
}
