package listener

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TLS is how a chain terminates TLS: the certificates that it presents, and how it verifies clients
// (ServerTLSSettings). All certificates come by SDS, including files on the proxy's disk, so a file
// that is missing or changes does not change the listener.
type TLS struct {
	// Certificates are the SDS names of the proxy's certificates, one for each kind of key.
	Certificates []string
	// Trust is the SDS name of the authorities that client certificates are verified against; "" if
	// none is requested.
	Trust string
	// Provider is the SDS provider of the secrets whose names begin with mesh.ExternalPrefix. It is
	// zero if there are none, and if an SDS server beside the proxy has them.
	Provider SecretProvider
	// Required refuses clients without a certificate. Unchecked accepts certificates that do not
	// verify.
	Required, Unchecked bool
	// RevocationFile is a file of revocation lists on the proxy's disk.
	RevocationFile string
	// Names, Hashes and Keys restrict the client's certificate: by subject alternative name, by
	// SHA-256 of the certificate, and by SHA-256 of its public key.
	Names, Hashes, Keys []string
	// MinVersion and MaxVersion are "TLSv1_2" etc.; "" for the default of the mesh or Envoy.
	MinVersion, MaxVersion string
	Ciphers                []string
	// Parameters is where versions, cipher suites and curves come from.
	Parameters tlsParameters
	// Domains are the trust domains of accepted clients; nil for any.
	Domains []string
	// Protocols are the ALPN names that the proxy offers.
	Protocols []string
}

// tlsParameters is where the versions, cipher suites and curves of a server come from.
type tlsParameters string

const (
	// serverParameters are the server's own, or else the mesh's (MeshConfig.tlsDefaults).
	serverParameters tlsParameters = ""
	// peerParameters are the mesh's for mutual TLS between proxies (MeshConfig.meshMTLS).
	peerParameters tlsParameters = "peers"
	// envoyParameters are Envoy's defaults.
	envoyParameters tlsParameters = "defaults"
)

// SecretProvider is an SDS server in the mesh: its cluster, and the authority of requests to it.
type SecretProvider struct{ Cluster, Authority string }

// newTLS translates ServerTLSSettings of a mode that terminates TLS with the user's certificates.
// from is where external credentials come from, and protocols are the ALPN names. Client
// certificates are required for MUTUAL and accepted for OPTIONAL_MUTUAL; in other modes the
// settings for them are ignored. Unknown cipher suites are left out.
func newTLS(in *networking.ServerTLSSettings, from credentials, protocols []string) *TLS {
	t := &TLS{
		Certificates: from.certificatesOf(in), Ciphers: config.KnownCipherSuites(in.GetCipherSuites()), Protocols: protocols,
		MinVersion: tlsVersion(in.GetMinProtocolVersion()), MaxVersion: tlsVersion(in.GetMaxProtocolVersion()),
	}
	switch in.GetMode() {
	case networking.ServerTLSSettings_MUTUAL, networking.ServerTLSSettings_OPTIONAL_MUTUAL:
		t.Required = in.GetMode() == networking.ServerTLSSettings_MUTUAL
		t.Trust, t.RevocationFile = from.trustOf(in), in.GetCaCrl()
		t.Unchecked = in.GetInsecureSkipVerify().GetValue()
		t.Names, t.Hashes, t.Keys = in.GetSubjectAltNames(), in.GetVerifyCertificateHash(), in.GetVerifyCertificateSpki()
	default: // No client certificate is requested.
	}
	if from.usesProvider() && (slices.ContainsFunc(t.Certificates, hasExternalPrefix) || hasExternalPrefix(t.Trust)) {
		t.Provider = SecretProvider{from.provider.Cluster(), from.provider.Host}
	}
	return t
}

// certificatesOf returns the SDS names of a server's certificates. They come from the first of
// these that is set: credentialNames, credentialName, tlsCertificates. Otherwise it is one name, of
// the files serverCertificate and privateKey, even if these are unset.
func (c credentials) certificatesOf(in *networking.ServerTLSSettings) []string {
	var names []string
	switch {
	case len(in.GetCredentialNames()) > 0:
		for _, n := range in.GetCredentialNames() {
			names = append(names, c.certificate(n))
		}
	case in.GetCredentialName() != "":
		names = append(names, c.certificate(in.GetCredentialName()))
	case len(in.GetTlsCertificates()) > 0:
		for _, f := range in.GetTlsCertificates() {
			names = append(names, mesh.FileCertificate(f.GetServerCertificate(), f.GetPrivateKey()))
		}
	default:
		names = append(names, mesh.FileCertificate(in.GetServerCertificate(), in.GetPrivateKey()))
	}
	return names
}

// trustOf returns the SDS name of the authorities for client certificates, or "" without any. They
// come from caCertCredentialName, else from the first credential, else from the file
// caCertificates, else from the first such file in tlsCertificates.
func (c credentials) trustOf(in *networking.ServerTLSSettings) string {
	switch {
	case in.GetCaCertCredentialName() != "":
		return c.authorities(in.GetCaCertCredentialName())
	case len(in.GetCredentialNames()) > 0:
		return c.trust(in.GetCredentialNames()[0])
	case in.GetCredentialName() != "":
		return c.trust(in.GetCredentialName())
	case in.GetCaCertificates() != "":
		return mesh.FileRoots(in.GetCaCertificates())
	}
	for _, f := range in.GetTlsCertificates() {
		if f.GetCaCertificates() != "" {
			return mesh.FileRoots(f.GetCaCertificates())
		}
	}
	return ""
}

// tlsVersion returns Envoy's name of a TLS version, such as "TLSv1_2", or "" for TLS_AUTO and
// unknown values.
func tlsVersion(v networking.ServerTLSSettings_TLSProtocol) string {
	switch v {
	case networking.ServerTLSSettings_TLSV1_0:
		return "TLSv1_0"
	case networking.ServerTLSSettings_TLSV1_1:
		return "TLSv1_1"
	case networking.ServerTLSSettings_TLSV1_2:
		return "TLSv1_2"
	case networking.ServerTLSSettings_TLSV1_3:
		return "TLSv1_3"
	default:
		return ""
	}
}

// providerCluster returns the cluster of t.Provider, or "" if t is nil or has none.
func (t *TLS) providerCluster() string {
	if t == nil {
		return ""
	}
	return t.Provider.Cluster
}

// appendText appends the complete text of a chain's TLS to b and returns it. Different ones have
// different texts.
func (t *TLS) appendText(b []byte) []byte {
	b = appendWords(b, " certificates", t.Certificates)
	if t.Trust != "" {
		b = appendWord(append(b, " clients by "...), t.Trust)
	}
	if t.Provider != (SecretProvider{}) {
		b = appendWord(append(b, ", external ones by "...), t.Provider.Cluster)
		b = appendWord(append(b, " as "...), t.Provider.Authority)
	}
	b = appendFlag(b, ", required", t.Required)
	b = appendFlag(b, ", unchecked", t.Unchecked)
	if t.RevocationFile != "" {
		b = appendWord(append(b, ", revoked in "...), t.RevocationFile)
	}
	if t.Parameters != serverParameters {
		b = append(append(b, ", "...), t.Parameters...)
	}
	b = appendWords(b, ", domains", t.Domains)
	b = appendWords(b, ", names", t.Names)
	b = appendWords(b, ", hashes", t.Hashes)
	b = appendWords(b, ", keys", t.Keys)
	if t.MinVersion+t.MaxVersion != "" {
		b = appendWord(append(b, ", versions "...), t.MinVersion+".."+t.MaxVersion)
	}
	b = appendWords(b, ", ciphers", t.Ciphers)
	return appendWords(b, ", alpn", t.Protocols)
}
