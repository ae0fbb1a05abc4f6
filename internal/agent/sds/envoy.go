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

// versionOf tells secrets apart. It is the same after a restart of the agent, when Envoy says what it still has.
func versionOf(s secret.Secret) string {
	hash := sha256.New()
	for _, part := range [][]byte{s.Chain, s.Key, s.Roots, s.Revoked} {
		fmt.Fprintf(hash, "%d:", len(part))
		hash.Write(part)
	}
	for _, d := range s.Domains {
		fmt.Fprintf(hash, "%d:%s%d:%s", len(d.Name), d.Name, len(d.Roots), d.Roots)
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

func resourceOf(name, version string, s secret.Secret) (*discoveryv3.Resource, error) {
	out := &tlsv3.Secret{Name: name}
	if s.Chain != nil {
		out.Type = &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{CertificateChain: inline(s.Chain), PrivateKey: inline(s.Key)}}
	} else {
		v := &tlsv3.CertificateValidationContext{TrustedCa: inline(s.Roots)}
		if len(s.Revoked) > 0 {
			v.Crl = inline(s.Revoked)
		}
		if len(s.Domains) > 0 {
			v.CustomValidatorConfig = byDomain(s)
		}
		out.Type = &tlsv3.Secret_ValidationContext{ValidationContext: v}
	}
	packed, err := anypb.New(out)
	if err != nil {
		return nil, fmt.Errorf("encode secret %q: %w", name, err)
	}
	return &discoveryv3.Resource{Name: name, Version: version, Resource: packed}, nil
}

// byDomain has Envoy look for a peer's authority among those of its trust domain only. Lists of what was revoked are part of what it
// looks at there; the usual ones it leaves aside then.
func byDomain(s secret.Secret) *corev3.TypedExtensionConfig {
	config := new(tlsv3.SPIFFECertValidatorConfig)
	for _, d := range s.Domains {
		config.TrustDomains = append(config.TrustDomains, &tlsv3.SPIFFECertValidatorConfig_TrustDomain{
			Name: d.Name, TrustBundle: inline(slices.Concat(d.Roots, s.Revoked)),
		})
	}
	packed, err := anypb.New(config)
	if err != nil {
		panic("sds: " + err.Error()) // a message of our own making always encodes
	}
	return &corev3.TypedExtensionConfig{Name: "envoy.tls.cert_validator.spiffe", TypedConfig: packed}
}

func inline(b []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b}}
}
