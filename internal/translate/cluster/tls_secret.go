package cluster

import (
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/mesh"
)

// systemRoots is where Debian, Ubuntu and the images made of them keep the certificates of public authorities. A
// DestinationRule without caCertificates trusts those.
const systemRoots = "/etc/ssl/certs/ca-certificates.crt"

// externalPrefix marks credentials that a server beside the proxy has. Without one they are looked for as Secrets.
const externalPrefix = "sds://"

// secrets gives the SDS names of the client's certificate, "" for none, and of the authorities that the server's is checked
// against. All come by SDS, files of the proxy too: what is not there, or changes, is then no matter of the cluster.
func (t transport) secrets() (certificate, trust string) {
	mutual := t.tls.GetMode() == networking.ClientTLSSettings_MUTUAL
	if credential := strings.TrimPrefix(t.tls.GetCredentialName(), externalPrefix); credential != "" && t.mayUse(credential) {
		certificate, trust = credential, credential
		if n, ok := mesh.CredentialName(credential); ok {
			certificate, trust = n.String(), mesh.TrustOf(n).String()
		}
		if !mutual {
			certificate = ""
		}
		return certificate, trust
	}
	if mutual && t.tls.GetClientCertificate() != "" && t.tls.GetPrivateKey() != "" {
		certificate = mesh.FileCertificate(t.tls.GetClientCertificate(), t.tls.GetPrivateKey())
	}
	if roots := t.tls.GetCaCertificates(); roots != "" {
		return certificate, mesh.FileRoots(roots)
	}
	return certificate, mesh.FileRoots(systemRoots)
}

// mayUse says whether a credential is for these proxies. A rule without a workloadSelector is for all sidecars that see it,
// few of which may have the secret: the others would wait for it in vain. ConfigMaps are for all.
func (t transport) mayUse(credential string) bool {
	n, ok := mesh.CredentialName(credential)
	return t.credentials || t.proxy.Type == mesh.RouterProxy || ok && n.Store == mesh.ConfigMapSecret
}
