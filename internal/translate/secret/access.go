package secret

import (
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/view"
)

// Policy says whether proxies of a Key may have a secret, whose Namespace is always set. It must go by nothing that Scope
// leaves out.
type Policy func(proxies view.Key, n mesh.SecretName) bool

// SameNamespace lets proxies have the Secrets of their own namespace, and every ConfigMap: callers need the roots of those
// that they call, and a certificate is no secret. It takes the namespace of a Key for true. Where proxies are not
// authenticated that is their own word only, and whoever reaches the port may have every key: there, Public is safe.
//
// Istio asks the API server besides whether the proxy's service account may list Secrets (SubjectAccessReview), and has
// the owner of another namespace open it to a Gateway API gateway (ReferenceGrant). Both narrow or widen this one later.
func SameNamespace(proxies view.Key, n mesh.SecretName) bool {
	return n.Store == mesh.ConfigMapSecret || n.Namespace == proxies.Namespace
}

// Vouched lets proxies that the server vouches for have the Secrets of their own namespace, and all others what is Public. So a
// private key goes to nobody who only says where it belongs.
func Vouched(proxies view.Key, n mesh.SecretName) bool {
	if proxies.Keys {
		return SameNamespace(proxies, n)
	}
	return Public(proxies, n)
}

// Public lets proxies have nothing but certificates to trust, of their own namespace and of ConfigMaps.
func Public(proxies view.Key, n mesh.SecretName) bool {
	return n.Trust && SameNamespace(proxies, n)
}
