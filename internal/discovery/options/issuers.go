package options

import (
	"github.com/meshpilot/meshpilot/internal/identity/jwks"
	"github.com/meshpilot/meshpilot/internal/kube"
)

// issuerKeys is the name of the ConfigMap that caches the keys of token issuers across restarts.
// Without Kubernetes it is a file in the authority's directory.
const issuerKeys = "meshpilot-issuer-keys"

// KeyCache returns the persistent cache of the keys of token issuers: in the API server of client,
// or in the authority's directory if client is nil. It returns nil if there is neither.
func (o Options) KeyCache(client *kube.Client) jwks.KeyCache {
	if client != nil {
		return jwks.ConfigMapCache{Client: client.Kubernetes, Namespace: o.Namespace, Name: issuerKeys}
	}
	return jwks.CacheInDir(o.Authority.Dir, issuerKeys)
}
