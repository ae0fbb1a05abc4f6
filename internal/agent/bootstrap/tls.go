package bootstrap

import (
	"errors"
	"net"
	"net/netip"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	networking "istio.io/api/networking/v1alpha3"
)

// configureTLS sets the transport socket of c, TLS 1.2 or 1.3, by the ClientTLSSettings of a
// ProxyConfig field, with certificates from files, and alpn as the offered protocols. It does
// nothing if tls is nil or disabled. ISTIO_MUTUAL, credentialName, MUTUAL without certificate or
// key, and an address that is not host:port are errors, which name field. SNI is the one in tls,
// else the host of address if that is a name; see validationContext for the server's certificate.
func configureTLS(
	c *clusterv3.Cluster, systemRoots, field, address string, tls *networking.ClientTLSSettings, alpn ...string,
) error {
	switch {
	case tls == nil || tls.GetMode() == networking.ClientTLSSettings_DISABLE:
		return nil
	case tls.GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL:
		return fieldError(field+".mode", errors.New("ISTIO_MUTUAL is not supported: "+
			"the connection is made before the workload has a certificate; use MUTUAL with files"))
	case tls.GetCredentialName() != "":
		return fieldError(field+".credentialName", errors.New("is not supported: "+
			"the connection is made before the control plane can send secrets; use files"))
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fieldError(field, err)
	}
	common := &tlsv3.CommonTlsContext{
		TlsParams: &tlsv3.TlsParameters{
			TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2,
			TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
		},
		AlpnProtocols: alpn,
		ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{
			ValidationContext: validationContext(tls, host, systemRoots),
		},
	}
	if tls.GetMode() == networking.ClientTLSSettings_MUTUAL {
		if tls.GetClientCertificate() == "" || tls.GetPrivateKey() == "" {
			return fieldError(field, errors.New("clientCertificate and privateKey are required for MUTUAL"))
		}
		common.TlsCertificates = []*tlsv3.TlsCertificate{{
			CertificateChain: fileSource(tls.GetClientCertificate()),
			PrivateKey:       fileSource(tls.GetPrivateKey()),
		}}
	}
	context := &tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: tls.GetSni()}
	if _, err := netip.ParseAddr(host); err != nil && context.Sni == "" {
		context.Sni = host
	}
	c.TransportSocket = &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: mustPack(context)},
	}
	return nil
}

// validationContext returns the requirements for the server's certificate: roots (caCertificates,
// or else systemRoots) and one of several names (subjectAltNames, or else host). A revocation list
// is used if caCrl is set. With insecureSkipVerify any certificate is accepted.
func validationContext(
	tls *networking.ClientTLSSettings, host, systemRoots string,
) *tlsv3.CertificateValidationContext {
	if tls.GetInsecureSkipVerify().GetValue() {
		return &tlsv3.CertificateValidationContext{
			TrustChainVerification: tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED,
		}
	}
	out := &tlsv3.CertificateValidationContext{TrustedCa: fileSource(systemRoots)}
	if roots := tls.GetCaCertificates(); roots != "" {
		out.TrustedCa = fileSource(roots)
	}
	if crl := tls.GetCaCrl(); crl != "" {
		out.Crl = fileSource(crl)
	}
	names := tls.GetSubjectAltNames()
	if len(names) == 0 {
		names = []string{host}
	}
	for _, name := range names {
		out.MatchTypedSubjectAltNames = append(out.MatchTypedSubjectAltNames, &tlsv3.SubjectAltNameMatcher{
			SanType: subjectAltNameType(name),
			Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name}},
		})
	}
	return out
}

// subjectAltNameType returns the type of a subjectAltName by its form, because the API does not
// state the type: IP_ADDRESS for an IP address, URI if it contains "://", otherwise DNS.
func subjectAltNameType(name string) tlsv3.SubjectAltNameMatcher_SanType {
	switch _, err := netip.ParseAddr(name); {
	case err == nil:
		return tlsv3.SubjectAltNameMatcher_IP_ADDRESS
	case strings.Contains(name, "://"):
		return tlsv3.SubjectAltNameMatcher_URI
	default:
		return tlsv3.SubjectAltNameMatcher_DNS
	}
}

// fileSource returns a source that Envoy reads from the file.
func fileSource(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}
