package sds

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/agent/secret"
)

// versionHash returns the version of a secret: a hash of its content without the time when it
// expires. It stays the same across restarts of the agent, so that Envoy's initial resource
// versions match.
func versionHash(s secret.Secret) string {
	hash := sha256.New()
	for _, part := range [][]byte{s.Chain, s.Key, s.Roots, s.CRLs} {
		fmt.Fprintf(hash, "%d:", len(part))
		hash.Write(part)
	}
	for _, d := range s.TrustDomains {
		fmt.Fprintf(hash, "%d:%s%d:%s", len(d.Name), d.Name, len(d.Roots), d.Roots)
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// newResource returns the SDS resource of a secret: a certificate if it has a chain, otherwise
// roots with their revocation lists and trust domains.
func newResource(name, version string, s secret.Secret) (*discoveryv3.Resource, error) {
	out := &tlsv3.Secret{Name: name}
	if s.Chain != nil {
		out.Type = &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: inlineBytes(s.Chain), PrivateKey: inlineBytes(s.Key),
		}}
	} else {
		v := &tlsv3.CertificateValidationContext{TrustedCa: inlineBytes(s.Roots)}
		if len(s.CRLs) > 0 {
			v.Crl = inlineBytes(s.CRLs)
		}
		if len(s.TrustDomains) > 0 {
			v.CustomValidatorConfig = spiffeValidator(s)
		}
		out.Type = &tlsv3.Secret_ValidationContext{ValidationContext: v}
	}
	packed, err := anypb.New(out)
	if err != nil {
		return nil, fmt.Errorf("encode secret %q: %w", name, err)
	}
	return &discoveryv3.Resource{Name: name, Version: version, Resource: packed}, nil
}

// spiffeValidator returns the certificate validator that accepts a peer only if a root of its own
// trust domain signed it. Each trust bundle includes the revocation lists, because Envoy ignores
// the crl field with this validator.
func spiffeValidator(s secret.Secret) *corev3.TypedExtensionConfig {
	config := new(tlsv3.SPIFFECertValidatorConfig)
	for _, d := range s.TrustDomains {
		config.TrustDomains = append(config.TrustDomains, &tlsv3.SPIFFECertValidatorConfig_TrustDomain{
			Name: d.Name, TrustBundle: inlineBytes(slices.Concat(d.Roots, s.CRLs)),
		})
	}
	packed, err := anypb.New(config)
	if err != nil {
		panic("sds: " + err.Error()) // cannot happen: our own message always encodes
	}
	return &corev3.TypedExtensionConfig{Name: "envoy.tls.cert_validator.spiffe", TypedConfig: packed}
}

// inlineBytes returns a data source that contains b, which it retains.
func inlineBytes(b []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b}}
}
