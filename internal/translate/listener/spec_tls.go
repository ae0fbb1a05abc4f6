package listener

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TLS is how a chain ends TLS: what it shows to clients, and what it asks of them (ServerTLSSettings). All certificates come
// by SDS, also those that are files on the proxy's disk: so a file that is not there, or changes, is no matter of the listener.
type TLS struct {
	// Certificates are the SDS names of the proxy's own, one for each kind of key.
	Certificates []string
	// Trust is the SDS name of the authorities that a client's certificate is checked against; "" where none is asked for.
	Trust string
	// Required says that a client without a certificate is turned away; Unchecked, that one with a bad certificate is not.
	Required, Unchecked bool
	// RevocationFile is a list of certificates of clients that are not taken, a file on the proxy's disk.
	RevocationFile string
	// Names, Hashes and Keys are what the client's certificate must be one of, by subject alternative name, by SHA-256 of
	// the certificate and of its public key.
	Names, Hashes, Keys []string
	// MinVersion and MaxVersion are "TLSv1_2" and alike; "": Envoy's default, or that of the mesh.
	MinVersion, MaxVersion string
	Ciphers                []string
	// Peers says that this is mutual TLS of the mesh, whose settings are the mesh's (MeshConfig.meshMTLS).
	Peers bool
	// Domains are trust domains: the client's identity must be of one of them. nil: it need not.
	Domains []string
	// Protocols are what the proxy offers in ALPN.
	Protocols []string
}

// newTLS reads ServerTLSSettings of a mode that ends TLS with certificates of the user's own. protocols are those of ALPN.
func newTLS(in *networking.ServerTLSSettings, protocols []string) *TLS {
	t := &TLS{
		Certificates: certificatesOf(in), Ciphers: config.KnownCipherSuites(in.GetCipherSuites()), Protocols: protocols,
		MinVersion: tlsVersion(in.GetMinProtocolVersion()), MaxVersion: tlsVersion(in.GetMaxProtocolVersion()),
	}
	switch in.GetMode() {
	case networking.ServerTLSSettings_MUTUAL:
		t.Required = true
	case networking.ServerTLSSettings_OPTIONAL_MUTUAL:
	default:
		return t // nothing is asked of the client
	}
	t.Trust, t.RevocationFile = trustOf(in), in.GetCaCrl()
	t.Unchecked = in.GetInsecureSkipVerify().GetValue()
	t.Names, t.Hashes, t.Keys = in.GetSubjectAltNames(), in.GetVerifyCertificateHash(), in.GetVerifyCertificateSpki()
	return t
}

// certificatesOf gives the SDS names of a server's certificates, from the one place of several that is used.
func certificatesOf(in *networking.ServerTLSSettings) []string {
	var names []string
	switch {
	case len(in.GetCredentialNames()) > 0:
		for _, n := range in.GetCredentialNames() {
			names = append(names, credential(n))
		}
	case in.GetCredentialName() != "":
		names = append(names, credential(in.GetCredentialName()))
	case len(in.GetTlsCertificates()) > 0:
		for _, c := range in.GetTlsCertificates() {
			names = append(names, mesh.FileCertificate(c.GetServerCertificate(), c.GetPrivateKey()))
		}
	default:
		names = append(names, mesh.FileCertificate(in.GetServerCertificate(), in.GetPrivateKey()))
	}
	return names
}

// trustOf gives the SDS name of the authorities for clients. A credential has its own, unless another is named for that.
func trustOf(in *networking.ServerTLSSettings) string {
	switch {
	case in.GetCaCertCredentialName() != "":
		return trustCredential(in.GetCaCertCredentialName())
	case len(in.GetCredentialNames()) > 0:
		return trustCredential(in.GetCredentialNames()[0])
	case in.GetCredentialName() != "":
		return trustCredential(in.GetCredentialName())
	case in.GetCaCertificates() != "":
		return mesh.FileRoots(in.GetCaCertificates())
	}
	for _, c := range in.GetTlsCertificates() {
		if c.GetCaCertificates() != "" {
			return mesh.FileRoots(c.GetCaCertificates())
		}
	}
	return ""
}

// credential gives the SDS name of a credential; one that the control plane does not serve stays as it is.
func credential(name string) string {
	if n, ok := mesh.CredentialName(name); ok {
		return n.String()
	}
	return name
}

func trustCredential(name string) string {
	if n, ok := mesh.CredentialName(name); ok {
		return mesh.TrustOf(n).String()
	}
	return name
}

// tlsVersion gives a version's name in Envoy, "" where the API leaves it open.
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

// appendText appends the text of a chain's TLS, with all that is in it.
func (t *TLS) appendText(b []byte) []byte {
	b = appendWords(b, " certificates", t.Certificates)
	if t.Trust != "" {
		b = appendWord(append(b, " clients by "...), t.Trust)
	}
	b = appendFlag(b, ", required", t.Required)
	b = appendFlag(b, ", unchecked", t.Unchecked)
	if t.RevocationFile != "" {
		b = appendWord(append(b, ", revoked in "...), t.RevocationFile)
	}
	b = appendFlag(b, ", peers", t.Peers)
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
