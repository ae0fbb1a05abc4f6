package diff

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// referenceCache keeps the names that resources refer to. Resources are immutable and shared by
// many proxies.
type referenceCache struct {
	names map[*resource.Resource][]resourceName
}

// newReferenceCache returns an empty cache. It must be used by one goroutine at a time.
func newReferenceCache() *referenceCache {
	return &referenceCache{names: map[*resource.Resource][]resourceName{}}
}

// empty removes all entries.
func (c *referenceCache) empty() { clear(c.names) }

// namesIn returns the names of resources that Envoy requests over ADS because of r: endpoints,
// routes, filters and secrets. It returns nil if r is of endpoints or a secret, or cannot be
// decoded. The result is cached by r.
func (c *referenceCache) namesIn(r *resource.Resource) []resourceName {
	if r.TypeURL == api.EndpointType || r.TypeURL == api.SecretType {
		return nil
	}
	names, known := c.names[r]
	if !known {
		if m := decodeBody(r); m != nil {
			collectReferences(m.ProtoReflect(), &names)
		}
		c.names[r] = names
	}
	return names
}

// References returns the names of resources that Envoy requests over ADS because of r, by their
// type URLs: endpoints, routes, filters and secrets.
func References(r *resource.Resource) map[string][]string {
	names := map[string][]string{}
	for _, n := range newReferenceCache().namesIn(r) {
		names[n.typeURL] = append(names[n.typeURL], n.name)
	}
	return names
}

// decodeBody decodes a resource. It returns nil if its type is not linked into the program or the
// body is not of that type.
func decodeBody(r *resource.Resource) proto.Message {
	return decodeAny(&anypb.Any{TypeUrl: r.TypeURL, Value: r.Body})
}

// decodeAny decodes an Any. It returns nil if its type is not linked into the program or the value
// is not of that type.
func decodeAny(a *anypb.Any) proto.Message {
	t, err := protoregistry.GlobalTypes.FindMessageByURL(a.GetTypeUrl())
	if err != nil {
		return nil
	}
	m := t.New().Interface()
	if proto.Unmarshal(a.GetValue(), m) != nil {
		return nil
	}
	return m
}

// collectReferences appends to names the clusters for EDS, RouteConfigurations, extension configs
// and Secrets that a message and the messages inside it refer to over ADS. Other sources of
// configuration, and Any messages that cannot be decoded, are ignored. Duplicates are kept.
func collectReferences(m protoreflect.Message, names *[]resourceName) {
	add := func(source *corev3.ConfigSource, typeURL, name string) {
		if source.GetAds() != nil && name != "" {
			*names = append(*names, resourceName{typeURL, name})
		}
	}
	switch x := m.Interface().(type) {
	case *anypb.Any:
		if inside := decodeAny(x); inside != nil {
			collectReferences(inside.ProtoReflect(), names)
		}
		return
	case *clusterv3.Cluster:
		if x.GetType() == clusterv3.Cluster_EDS {
			name := x.GetEdsClusterConfig().GetServiceName()
			if name == "" {
				name = x.GetName()
			}
			add(x.GetEdsClusterConfig().GetEdsConfig(), api.EndpointType, name)
		}
	case *hcmv3.Rds:
		add(x.GetConfigSource(), api.RouteType, x.GetRouteConfigName())
	case *listenerv3.Filter:
		add(x.GetConfigDiscovery().GetConfigSource(), api.ExtensionType, x.GetName())
	case *hcmv3.HttpFilter:
		add(x.GetConfigDiscovery().GetConfigSource(), api.ExtensionType, x.GetName())
	case *listenerv3.ListenerFilter:
		add(x.GetConfigDiscovery().GetConfigSource(), api.ExtensionType, x.GetName())
	case *tlsv3.SdsSecretConfig:
		add(x.GetSdsConfig(), api.SecretType, x.GetName())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					collectReferences(v.Message(), names)
					return true
				})
			}
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				collectReferences(v.List().Get(i).Message(), names)
			}
		default:
			collectReferences(v.Message(), names)
		}
		return true
	})
}
