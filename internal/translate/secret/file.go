package secret

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// fileSecret returns the Secret of a name that refers to files on the proxy's own disk, or nil for
// other names. The system's authorities have the path mesh.DebianRoots. Every proxy may request it,
// because it contains only the paths. By SDS, unlike in a listener, Envoy watches the files, and a
// file that cannot be read affects only connections that need it.
func fileSecret(name string) *tlsv3.Secret {
	if chain, key, ok := mesh.ParseFileCertificate(name); ok {
		return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: fileSource(chain), PrivateKey: fileSource(key),
		}}}
	}
	if roots, ok := mesh.ParseFileRoots(name); ok {
		if roots == mesh.SystemRoots { // A proxy with an agent requests these from the agent.
			roots = mesh.DebianRoots
		}
		return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_ValidationContext{
			ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: fileSource(roots)},
		}}
	}
	return nil
}

// OfFiles reports whether a name refers to files on the proxy's own disk.
func OfFiles(name string) bool { return fileSecret(name) != nil }

// fileSource returns the data source of a file on the proxy's disk, by its path.
func fileSource(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}
