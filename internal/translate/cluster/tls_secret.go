package cluster

import (
	"strings"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/translate/certificate"
)

// externalPrefix marks credentials that a server beside the proxy has. Without one they are looked for as Secrets.
const externalPrefix = "sds://"

// secrets returns the SDS names of the client's certificate, "" for none, and of the authorities that the server's is checked
// against. All come by SDS, files of the proxy too: a file that is missing or changes does not change the cluster. Without
// caCertificates (or with "system") the authorities are those of the proxy's operating system.
func (t transport) secrets() (own, trust string) {
	mutual := t.tls.GetMode() == networking.ClientTLSSettings_MUTUAL
	if credential := strings.TrimPrefix(t.tls.GetCredentialName(), externalPrefix); credential != "" && t.mayUse(credential) {
		own, trust = credential, credential
		if n, ok := mesh.CredentialName(credential); ok {
			own, trust = n.String(), mesh.TrustOf(n).String()
		}
		if !mutual {
			own = ""
		}
		return own, trust
	}
	if mutual && t.tls.GetClientCertificate() != "" && t.tls.GetPrivateKey() != "" {
		own = mesh.FileCertificate(t.tls.GetClientCertificate(), t.tls.GetPrivateKey())
	}
	switch roots := t.tls.GetCaCertificates(); {
	case roots != "" && roots != mesh.SystemRoots:
		return own, mesh.FileRoots(roots)
	case t.proxy.FileServer != "":
		return own, mesh.FileRoots(mesh.SystemRoots)
	default:
		return own, mesh.FileRoots(mesh.DebianRoots)
	}
}

// checked returns how the server's certificate is checked. The agent is asked for the system's authorities, because it finds their
// file; all other secrets come from the control plane.
func (t transport) checked(trust string, names []string) *tlsv3.CommonTlsContext_CombinedValidationContext {
	v := certificate.Validation(names, t.tls.GetCaCrl())
	if trust == mesh.FileRoots(mesh.SystemRoots) {
		return certificate.CheckedBy(certificate.FromAgent(t.proxy.FileServer, trust), v)
	}
	return certificate.Checked(trust, v)
}

// mayUse says whether a credential is for these proxies. A rule without a workloadSelector is for all sidecars that see it,
// few of which may have the secret: the others would wait for it in vain. ConfigMaps are for all.
func (t transport) mayUse(credential string) bool {
	n, ok := mesh.CredentialName(credential)
	return t.credentials || t.proxy.Type == mesh.RouterProxy || ok && n.Store == mesh.ConfigMapSecret
}
