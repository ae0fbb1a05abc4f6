package secret

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Policy reports whether proxies of a View may receive a secret, whose Namespace is always set. It
// must depend only on the part of the Key that Scope returns, and on no objects but Gateways and
// ReferenceGrants.
type Policy func(v *view.View, n mesh.SecretName) bool

// SameNamespace permits Secrets of the proxies' own namespace, and every ConfigMap: callers need
// the roots of the services that they call, and these are not secret. It trusts the namespace of
// the Key. If proxies are not authenticated, that is only their claim, and any client that reaches
// the port could read every key; use Public in that case.
func SameNamespace(v *view.View, n mesh.SecretName) bool {
	return n.Store == mesh.ConfigMapSecret || n.Namespace == v.Key.Namespace
}

// Public permits only trusted certificates, from the proxies' own namespace and from ConfigMaps. It
// permits no private keys.
func Public(v *view.View, n mesh.SecretName) bool {
	return n.Trust && SameNamespace(v, n)
}

// Entitled permits everything that Public permits, and private keys to proxies whose namespace is
// verified, as Istio does:
//
//   - Secrets of that namespace, under either scheme, if the proxy's account may read Secrets there
//     (view.SecretAccess);
//   - "kubernetes-gateway://": Secrets that are named by a Gateway of that namespace which selects
//     the proxy. The authors of Gateways decide; the rights of the proxy's account are not checked.
//     For a Gateway whose proxies are deployed, the account must be theirs.
//     A Secret of another namespace also requires a ReferenceGrant there, unless the Gateway was
//     converted from the Gateway API: the converter has checked it.
//
// So a proxy that only claims its namespace receives no private key.
func Entitled(v *view.View, n mesh.SecretName) bool {
	switch {
	case Public(v, n):
		return true
	case !v.Key.SecretAccess.IsVerified():
		return false
	case n.Namespace == v.Key.Namespace && v.Key.SecretAccess == view.SecretsAllowed:
		return true
	default:
		named, granted := gatewayNames(v, n)
		return n.Store == mesh.GatewaySecret && named &&
			(granted || v.Snapshot.IsReferenceGranted(v.Key.Namespace, n.Namespace, n.Object))
	}
}

// gatewayNames reports whether a Gateway of the proxies' own namespace that selects them names the
// credential, also as client certificate, and whether such a Gateway was converted from the Gateway
// API. The converter has then checked the ReferenceGrants, of ListenerSets in other namespaces too.
// It ignores Gateways in other namespaces, and for another service account than the proxies'. A
// proxy that was verified by its connection alone has no account, and is not limited by these.
func gatewayNames(v *view.View, n mesh.SecretName) (named, granted bool) {
	matches := func(credential string) bool {
		have, ok := mesh.CredentialName(credential)
		return ok && have.Store == n.Store && have.Namespace == n.Namespace && have.Object == n.Object
	}
	for _, c := range v.Snapshot.Gateways(v.Key.Gateways) {
		x := c.Extension
		if c.Namespace != v.Key.Namespace || !x.PermitsAccount(v.Key.ServiceAccount) {
			continue
		}
		has := x != nil && x.Gateway != nil && x.Gateway.ClientCertificate != "" && matches(x.Gateway.ClientCertificate)
		for _, s := range config.Spec[*networking.Gateway](c).GetServers() {
			has = has || slices.ContainsFunc(credentialsOf(s.GetTls()), matches)
		}
		named, granted = named || has, granted || has && x != nil
	}
	return named, granted
}

// credentialsOf returns a new list of the credential names of a server's TLS settings:
// credentialNames, credentialName and caCertCredentialName; the last two are "" if unset.
func credentialsOf(t *networking.ServerTLSSettings) []string {
	return append(slices.Clip(t.GetCredentialNames()), t.GetCredentialName(), t.GetCaCertCredentialName())
}
