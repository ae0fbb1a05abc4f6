package wasm

import (
	udpav1 "github.com/cncf/xds/go/udpa/type/v1"
	xdsv3 "github.com/cncf/xds/go/xds/type/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	networkwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Stat prefixes of the RBAC filters that replace unavailable modules, as in Istio.
const (
	allowPrefix = "wasm-default-allow"
	denyPrefix  = "wasm-default-deny"
)

// filter is an HTTP or network Wasm filter.
type filter interface {
	proto.Message
	GetConfig() *wasmv3.PluginConfig
}

// typedStruct is a message that contains another one as JSON, with its type.
type typedStruct interface {
	proto.Message
	GetTypeUrl() string
	GetValue() *structpb.Struct
}

// decodeFilter returns the Wasm filter in a configuration, which may be inside of a TypedStruct,
// and its fallback (newFilter). Fields in a TypedStruct that the filter does not have are ignored,
// as in Envoy. The filter is nil for other configurations. A filter that cannot be decoded is an
// error.
func decodeFilter(config *anypb.Any) (f filter, fallback func(open bool) proto.Message, err error) {
	var wrapper typedStruct
	switch {
	case config.MessageIs((*udpav1.TypedStruct)(nil)):
		wrapper = new(udpav1.TypedStruct)
	case config.MessageIs((*xdsv3.TypedStruct)(nil)):
		wrapper = new(xdsv3.TypedStruct)
	default:
		if f, fallback = newFilter(config); f == nil {
			return nil, nil, nil
		}
		return f, fallback, config.UnmarshalTo(f)
	}
	if err := config.UnmarshalTo(wrapper); err != nil {
		return nil, nil, err
	}
	if f, fallback = newFilter(&anypb.Any{TypeUrl: wrapper.GetTypeUrl()}); f == nil {
		return nil, nil, nil
	}
	text, err := protojson.Marshal(wrapper.GetValue())
	if err != nil {
		return nil, nil, err
	}
	return f, fallback, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, f)
}

// newFilter returns an empty filter of the configuration's type, and a function that returns its
// replacement if the module is unavailable. That is an RBAC filter that allows everything if open
// is set, and denies everything otherwise. Both are nil if the configuration is not a Wasm filter.
func newFilter(config *anypb.Any) (filter, func(open bool) proto.Message) {
	switch {
	case config.MessageIs((*httpwasmv3.Wasm)(nil)):
		return &httpwasmv3.Wasm{}, func(open bool) proto.Message {
			if open {
				return &httprbacv3.RBAC{RulesStatPrefix: allowPrefix}
			}
			return &httprbacv3.RBAC{Rules: &rbacv3.RBAC{}, RulesStatPrefix: denyPrefix}
		}
	case config.MessageIs((*networkwasmv3.Wasm)(nil)):
		return &networkwasmv3.Wasm{}, func(open bool) proto.Message {
			if open {
				return &networkrbacv3.RBAC{StatPrefix: allowPrefix}
			}
			return &networkrbacv3.RBAC{Rules: &rbacv3.RBAC{}, StatPrefix: denyPrefix}
		}
	default:
		return nil, nil
	}
}
