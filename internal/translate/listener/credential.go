package listener

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// credentials is where the proxies of a View find the external credentials that servers name
// (mesh.ExternalPrefix). The zero value is in Secrets of the same names. It is comparable.
type credentials struct {
	// beside is set if an SDS server beside the proxies has them.
	beside bool
	// provider is the SDS provider of the mesh, unless beside is set; zero if there is none.
	provider destination.NamedProvider
}

// credentialsOf returns where the proxies of a View find external credentials: in the SDS server
// beside them, else in the first SDS provider of MeshConfig.extensionProviders, whose service may
// have a Fault. It returns the zero value if there is neither.
func credentialsOf(v *view.View) credentials {
	if v.Key.CredentialServer {
		return credentials{beside: true}
	}
	for _, p := range v.Settings.Mesh.GetExtensionProviders() {
		if x := p.GetSds(); x != nil {
			return credentials{provider: destination.NamedProvider{
				Name: p.GetName(), Provider: destination.ProviderOf(v, x.GetService(), x.GetPort()),
			}}
		}
	}
	return credentials{}
}

// credentialsTouched reports whether a change of visibility alters the SDS provider from which a
// View takes external credentials; s is the snapshot after the change. It returns false if the View
// has no such provider (credentialsOf).
func credentialsTouched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	from := credentialsOf(v)
	return d.ChangesVisibility() && from.provider != (destination.NamedProvider{}) &&
		from != credentialsOf(view.Build(s, v.Key))
}

// fault returns why external credentials of a server are looked up as Secrets although the mesh has
// an SDS provider. It returns "" if they are not, and if the server has none or in is nil.
func (c credentials) fault(in *networking.ServerTLSSettings) string {
	names := append(slices.Clone(in.GetCredentialNames()), in.GetCredentialName(), in.GetCaCertCredentialName())
	if c.provider.Fault == "" || !slices.ContainsFunc(names, hasExternalPrefix) {
		return ""
	}
	return fmt.Sprintf("extension provider %q is not used: %s. External credentials are taken from Secrets",
		c.provider.Name, c.provider.Fault)
}

// isExternal reports whether an SDS server of the user has the credential with a name in the API.
func (c credentials) isExternal(name string) bool {
	return (c.beside || c.usesProvider()) && hasExternalPrefix(name)
}

// usesProvider reports whether external credentials come from an SDS provider of the mesh.
func (c credentials) usesProvider() bool {
	return c.provider != (destination.NamedProvider{}) && c.provider.Fault == ""
}

// hasExternalPrefix reports whether name begins with mesh.ExternalPrefix.
func hasExternalPrefix(name string) bool { return strings.HasPrefix(name, mesh.ExternalPrefix) }

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
// API. Names that the control plane does not serve are unchanged, unless the credential is
// external.
func (c credentials) trust(name string) string {
	if c.isExternal(name) {
		return mesh.ExternalTrust(name)
	}
	return secretName(name, mesh.TrustOf)
}

// authorities is like trust for authorities with a name of their own (caCertCredentialName): if
// they are external, their server has them under exactly this name.
func (c credentials) authorities(name string) string {
	if c.isExternal(name) {
		return name
	}
	return c.trust(name)
}

// secretName returns part of the SDS name of the Secret or ConfigMap with a name in the API,
// without mesh.ExternalPrefix. With that prefix, an invalid rest becomes an SDS name that is never
// served. Other names that the control plane does not serve are unchanged.
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
