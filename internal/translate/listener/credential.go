package listener

import (
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// credentials is where the proxies of a View find the external credentials that servers name
// (mesh.ExternalPrefix). The zero value is in Secrets of the same names.
type credentials struct {
	// served is set if an SDS server beside the proxies has them.
	served bool
}

// credentialsOf returns where the proxies of a View find external credentials.
func credentialsOf(v *view.View) credentials { return credentials{served: v.Key.CredentialServer} }

// isExternal reports whether an SDS server of the user has the credential with a name in the API.
func (c credentials) isExternal(name string) bool {
	return c.served && strings.HasPrefix(name, mesh.ExternalPrefix)
}

// certificate returns the SDS name of the credential with a name in the API: the same name if the
// credential is external, else the name of a Secret. Other names that the control plane does not
// serve are unchanged.
func (c credentials) certificate(name string) string {
	if c.isExternal(name) {
		return name
	}
	return secretName(name, func(n mesh.SecretName) mesh.SecretName { return n })
}

// trust returns the SDS name of the authorities that belong to the credential with a name in the
// API. Names that the control plane does not serve are unchanged, unless the credential is external.
func (c credentials) trust(name string) string {
	if c.isExternal(name) {
		return mesh.ExternalTrust(name)
	}
	return secretName(name, mesh.TrustOf)
}

// authorities is like trust for authorities with a name of their own (caCertCredentialName): if they
// are external, their server has them under exactly this name.
func (c credentials) authorities(name string) string {
	if c.isExternal(name) {
		return name
	}
	return c.trust(name)
}

// secretName returns part of the SDS name of the Secret or ConfigMap with a name in the API, without
// mesh.ExternalPrefix. With that prefix, an invalid rest becomes an SDS name that is never served.
// Other names that the control plane does not serve are unchanged.
func secretName(name string, part func(mesh.SecretName) mesh.SecretName) string {
	rest, external := strings.CutPrefix(name, mesh.ExternalPrefix)
	if n, ok := mesh.CredentialName(rest); ok {
		return part(n).String()
	}
	if external {
		return string(mesh.KubernetesSecret) + "://" + rest
	}
	return name
}
