package cluster

import (
	"strings"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/translate/certificate"
)

// secretNames returns the SDS names of the client's certificate and of the authorities that the
// server is verified against. own is "" without a certificate, and always unless the mode is
// MUTUAL. A credential that the proxy may use overrides files; for MUTUAL, separateTrust may
// replace its authorities. An external one (mesh.ExternalPrefix) is a Secret's if the proxies have
// no server of credentials. Without caCertificates (or with "system") the proxy's operating system
// supplies the authorities.
//
// Files of the proxy come by SDS too, so a file that is missing or changes does not change the
// cluster.
func (t transport) secretNames() (own, trust string) {
	mutual := t.tls.GetMode() == networking.ClientTLSSettings_MUTUAL
	credential, external := strings.CutPrefix(t.tls.GetCredentialName(), mesh.ExternalPrefix)
	if credential != "" && t.mayUse(credential) {
		own, trust = credential, credential
		if external && t.proxy.CredentialServer {
			own, trust = t.tls.GetCredentialName(), mesh.ExternalTrust(t.tls.GetCredentialName())
		} else if n, ok := mesh.CredentialName(credential); ok {
			own, trust = n.String(), mesh.TrustOf(n).String()
		}
		if !mutual {
			own = ""
		} else if other := t.separateTrust(); other != "" {
			trust = other
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

// separateTrust returns the SDS name of the authorities in caCertificates if they are the system's
// or a secret, not a file. Otherwise it returns "": they belong to the client's credential.
// Settings that were converted from the Gateway API name them that way.
func (t transport) separateTrust() string {
	switch roots := t.tls.GetCaCertificates(); {
	case roots == mesh.SystemRoots && t.proxy.FileServer != "":
		return mesh.FileRoots(mesh.SystemRoots)
	case roots == mesh.SystemRoots:
		return mesh.FileRoots(mesh.DebianRoots)
	case strings.Contains(roots, "://"):
		return roots
	default:
		return ""
	}
}

// validationContext returns how the server's certificate is verified: by the authorities in the
// secret trust (an SDS name), the subject alternative names and the CRL of t.tls. The system's
// authorities come from the agent, which finds their file; for all other secrets see
// certificate.Secret.
func (t transport) validationContext(trust string, names []string) *tlsv3.CommonTlsContext_CombinedValidationContext {
	v := certificate.Validation(names, t.tls.GetCaCrl())
	if trust == mesh.FileRoots(mesh.SystemRoots) {
		return certificate.CheckedBy(certificate.FromAgent(t.proxy.FileServer, trust), v)
	}
	return certificate.Checked(trust, v)
}

// mayUse reports whether the proxies may be sent a credential: gateways, proxies that the rule
// selects, and for ConfigMaps all. A rule without a workloadSelector applies to all sidecars that
// see it, but few may read its Secret, and the others would wait for it in vain.
func (t transport) mayUse(credential string) bool {
	n, ok := mesh.CredentialName(credential)
	return t.credentials || t.proxy.Type == mesh.RouterProxy || ok && n.Store == mesh.ConfigMapSecret
}
