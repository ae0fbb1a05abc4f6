package gatewayapi

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// revocationKey is the key of certificate revocation lists in a ConfigMap or Secret.
const revocationKey = "ca.crl"

// newBundle returns a ConfigMap with the CA certificates and revocation lists of several objects,
// because proxies can request only one object. Unusable objects are left out. It returns nil if
// none is usable: then proxies refuse connections.
func (c *Converter) newBundle(key config.Key, from *config.Config, authorities []config.Key) *config.Config {
	data := map[string]string{}
	for _, k := range authorities {
		if c.authorityFault(k) != "" {
			continue
		}
		for _, field := range []string{authorityKey, revocationKey} {
			if text := strings.TrimSpace(c.certificateData(k, field)); text != "" {
				data[field] += text + "\n"
			}
		}
	}
	if data[authorityKey] == "" {
		return nil
	}
	spec := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Data: data}
	return newObject(key, from, spec, &config.Extension{Source: from.Key})
}

// certificateData returns a field of the data of a Secret or ConfigMap, or "" if the object or the
// field does not exist. It panics if k is the key of an existing object of another kind.
func (c *Converter) certificateData(k config.Key, field string) string {
	switch o := c.objects.all[k]; {
	case o == nil:
		return ""
	case k.Kind == api.Secret:
		return string(config.Spec[*corev1.Secret](o).Data[field])
	default:
		return config.Spec[*corev1.ConfigMap](o).Data[field]
	}
}

// bundleKey returns the key of the ConfigMap of a bundle. It contains a "~", which Kubernetes does
// not allow in names, so it is not that of a user's object.
func bundleKey(namespace, name string) config.Key {
	return config.Key{Kind: api.ConfigMap, Namespace: namespace, Name: name + "~authorities"}
}

// bundleOf returns the key of the bundle of a BackendTLSPolicy or XBackend.
func bundleOf(k config.Key) config.Key {
	if k.Kind == api.XBackend {
		return bundleKey(k.Namespace, k.Name+"~"+k.Kind.Name())
	}
	return bundleKey(k.Namespace, k.Name)
}
