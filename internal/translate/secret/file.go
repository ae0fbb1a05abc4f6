package secret

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// fileSecret makes the Secret of a name that stands for files on the proxy's own disk, nil for any other name. Nothing of
// them comes from here, so every proxy may ask. Given by SDS, unlike in a listener, files are watched by Envoy, and one that
// cannot be read harms nothing but the connections that need it.
func fileSecret(name string) *tlsv3.Secret {
	if chain, key, ok := mesh.ParseFileCertificate(name); ok {
		return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: file(chain), PrivateKey: file(key),
		}}}
	}
	if roots, ok := mesh.ParseFileRoots(name); ok {
		if roots == mesh.SystemRoots { // a proxy with an agent asks that instead
			roots = mesh.DebianRoots
		}
		return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_ValidationContext{
			ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: file(roots)},
		}}
	}
	return nil
}

// OfFiles says whether a name stands for files on the proxy's own disk.
func OfFiles(name string) bool { return fileSecret(name) != nil }

func file(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}
