package explain

import (
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// maxObjects limits the source objects of a step. A listener for a port has all services of the
// port as sources.
const maxObjects = 4

// fewObjects returns the objects of keys, or nil if there are more than maxObjects.
func (w *walk) fewObjects(keys []config.Key) []Object {
	if len(keys) > maxObjects {
		return nil
	}
	return objectsOf(keys)
}

// objectsOf returns an Object without a rule for each key.
func objectsOf(keys []config.Key) []Object {
	var list []Object
	for _, k := range keys {
		list = append(list, Object{Key: k})
	}
	return list
}

// ownersOf returns the Services and ServiceEntries in keys that match the host of a virtual host
// "<host>:<port>".
func (w *walk) ownersOf(virtualHost string, keys []config.Key) []Object {
	host, _, _ := strings.Cut(virtualHost, ":")
	return objectsOf(slices.DeleteFunc(slices.Clone(keys), func(k config.Key) bool { return !w.ownsHost(k, host) }))
}

// ownsHost reports whether the Service or ServiceEntry k defines host: a Service by NAME.NAMESPACE.svc
// of any domain, a ServiceEntry by one of its hosts, in any case. A wildcard host equals only itself.
// It returns false for other kinds, and for a ServiceEntry that is not available.
func (w *walk) ownsHost(k config.Key, host string) bool {
	switch k.Kind {
	case api.Service:
		return strings.HasPrefix(host, k.Name+"."+k.Namespace+".svc.")
	case api.ServiceEntry:
		if w.Object == nil {
			return false
		}
		c := w.Object(k)
		if c == nil {
			return false
		}
		return slices.ContainsFunc(
			config.Spec[*networking.ServiceEntry](c).GetHosts(),
			func(h string) bool { return strings.EqualFold(h, host) },
		)
	default:
		return false
	}
}

// clusterObjects returns the source objects of a cluster, or nil if there are more than maxObjects.
// For a DestinationRule it adds the path of the cluster's subset, if the object is available.
func (w *walk) clusterObjects(c decoded[*clusterv3.Cluster]) []Object {
	list := w.fewObjects(c.from)
	subset := c.message.GetMetadata().GetFilterMetadata()["istio"].GetFields()["subset"].GetStringValue()
	for i, o := range list {
		if o.Kind == api.DestinationRule && subset != "" && w.Object != nil {
			list[i].Rule = subsetRule(w.Object(o.Key), subset)
		}
	}
	return list
}

// MetadataKey parses the object in a resource's metadata (filter metadata "istio", key "config"):
// "/apis/networking.istio.io/v1/namespaces/NAMESPACE/virtual-service/NAME". The second result is
// false if there is none or its kind is unknown. The kind is compared without case and hyphens.
func MetadataKey(m *corev3.Metadata) (config.Key, bool) {
	path := m.GetFilterMetadata()["istio"].GetFields()["config"].GetStringValue()
	parts := strings.Split(path, "/")
	if len(parts) != 8 || parts[4] != "namespaces" {
		return config.Key{}, false
	}
	for _, k := range api.Kinds() {
		if strings.EqualFold(string(k.Kind), strings.ReplaceAll(parts[6], "-", "")) {
			return config.Key{Kind: k.Kind, Namespace: parts[5], Name: parts[7]}, true
		}
	}
	return config.Key{}, false
}
