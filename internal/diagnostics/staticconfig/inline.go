package staticconfig

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// inline replaces, in place, references in m and in the messages inside it by the resources that
// they name: to extensions, and to route configurations if they come by ADS. References to secrets
// become requests to the agent; endpoints stay references (withEndpoints replaces them). An unknown
// route configuration becomes an empty one. It returns an error for an unknown extension.
func (b *builder) inline(m protoreflect.Message) error {
	switch x := m.Interface().(type) {
	case *anypb.Any:
		return b.inlineAny(x)
	case *hcmv3.HttpConnectionManager:
		if rds := x.GetRds(); rds.GetConfigSource().GetAds() != nil {
			// Without a route configuration, a proxy answers 404 to all requests.
			c := &routev3.RouteConfiguration{Name: rds.GetRouteConfigName()}
			if known := b.routes[c.GetName()]; known != nil {
				c = proto.CloneOf(known)
			}
			x.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: c}
		}
	case *hcmv3.HttpFilter:
		if x.GetConfigDiscovery() != nil {
			extension, err := b.extension(x.GetName())
			if err != nil {
				return err
			}
			x.ConfigType = &hcmv3.HttpFilter_TypedConfig{TypedConfig: extension}
		}
	case *listenerv3.Filter:
		if x.GetConfigDiscovery() != nil {
			extension, err := b.extension(x.GetName())
			if err != nil {
				return err
			}
			x.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: extension}
		}
	case *listenerv3.ListenerFilter:
		if x.GetConfigDiscovery() != nil {
			extension, err := b.extension(x.GetName())
			if err != nil {
				return err
			}
			x.ConfigType = &listenerv3.ListenerFilter_TypedConfig{TypedConfig: extension}
		}
	case *tlsv3.SdsSecretConfig:
		if x.GetSdsConfig().GetAds() != nil {
			x.SdsConfig = agentSource()
		}
	}
	return b.inlineFields(m)
}

// inlineFields calls inline for the messages in the set fields of m, including elements of lists
// and values of maps. It stops at the first error, which it returns.
func (b *builder) inlineFields(m protoreflect.Message) (err error) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() && f.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				err = b.inline(v.Message())
				return err == nil
			})
		case f.IsMap() || f.Message() == nil:
		case f.IsList():
			for i := 0; i < v.List().Len() && err == nil; i++ {
				err = b.inline(v.List().Get(i).Message())
			}
		default:
			err = b.inline(v.Message())
		}
		return err == nil
	})
	return err
}

// inlineAny calls inline for the message in an Any. An Any of an unknown type stays as it is.
func (b *builder) inlineAny(a *anypb.Any) error {
	inside, err := a.UnmarshalNew()
	if err != nil {
		return nil //nolint:nilerr // an EnvoyFilter may name types that this program does not know
	}
	if err := b.inline(inside.ProtoReflect()); err != nil {
		return err
	}
	a.Value, err = proto.MarshalOptions{Deterministic: true}.Marshal(inside)
	return err
}

// extension returns a copy of an extension's configuration, or an error if the proxy was not sent
// it.
func (b *builder) extension(name string) (*anypb.Any, error) {
	if known := b.extensions[name]; known != nil {
		return proto.CloneOf(known), nil
	}
	return nil, fmt.Errorf("extension %q does not exist", name)
}

// agentSource returns the config source of secrets that the agent serves.
func agentSource() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
			ApiType: corev3.ApiConfigSource_GRPC, TransportApiVersion: corev3.ApiVersion_V3,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: mesh.AgentCluster},
			}}},
		}},
		ResourceApiVersion: corev3.ApiVersion_V3,
	}
}
