package secret

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Policy says whether proxies of a View may have a secret, whose Namespace is always set. It must go by nothing that Scope
// leaves out of the Key, and by no objects but Gateways and ReferenceGrants.
type Policy func(v *view.View, n mesh.SecretName) bool

// SameNamespace lets proxies have the Secrets of their own namespace, and every ConfigMap: callers need the roots of those
// that they call, and a certificate is no secret. It takes the namespace of a Key for true. Where proxies are not
// authenticated that is their own word only, and whoever reaches the port may have every key: there, Public is safe.
func SameNamespace(v *view.View, n mesh.SecretName) bool {
	return n.Store == mesh.ConfigMapSecret || n.Namespace == v.Key.Namespace
}

// Public lets proxies have nothing but certificates to trust, of their own namespace and of ConfigMaps.
func Public(v *view.View, n mesh.SecretName) bool {
	return n.Trust && SameNamespace(v, n)
}

// Entitled lets everybody have what is Public, and gives private keys to proxies of which it is known in which namespace they
// are, as Istio does:
//
//   - "kubernetes://": Secrets of that namespace, if the proxy's account may read Secrets there (view.KeyRight);
//   - "kubernetes-gateway://": Secrets that a Gateway of that namespace names which selects the proxy. Whoever may write Gateways
//     there decides, and no right of the proxy's account is asked for. A Secret of another namespace takes a ReferenceGrant there.
//
// So a private key goes to nobody who only says where it belongs.
func Entitled(v *view.View, n mesh.SecretName) bool {
	switch {
	case Public(v, n):
		return true
	case !v.Key.Keys.Vouched():
		return false
	case n.Namespace == v.Key.Namespace && v.Key.Keys == view.KeysAllowed:
		return true
	default:
		return n.Store == mesh.GatewaySecret && names(v, n) && v.Snapshot.MayRefer(v.Key.Namespace, n.Namespace, n.Object)
	}
}

// names says whether a Gateway of the proxies' own namespace that selects them has a credential of that name.
func names(v *view.View, n mesh.SecretName) bool {
	return slices.ContainsFunc(v.Snapshot.Gateways(v.Key.Gateway.Names), func(c *config.Config) bool {
		return c.Namespace == v.Key.Namespace && slices.ContainsFunc(config.Spec[*networking.Gateway](c).GetServers(), func(s *networking.Server) bool {
			return slices.ContainsFunc(credentialsOf(s.GetTls()), func(credential string) bool {
				have, ok := mesh.CredentialName(credential)
				return ok && have.Store == n.Store && have.Namespace == n.Namespace && have.Object == n.Object
			})
		})
	})
}

// credentialsOf gives the credentials that a server names.
func credentialsOf(t *networking.ServerTLSSettings) []string {
	return append(slices.Clip(t.GetCredentialNames()), t.GetCredentialName(), t.GetCaCertCredentialName())
}
