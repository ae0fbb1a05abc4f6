package patch

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// newValue returns an empty message of the type of values of patches of type a, or nil for an
// unknown type.
func newValue(a applyTo) proto.Message {
	switch a {
	case networking.EnvoyFilter_LISTENER:
		return new(listenerv3.Listener)
	case networking.EnvoyFilter_FILTER_CHAIN:
		return new(listenerv3.FilterChain)
	case networking.EnvoyFilter_NETWORK_FILTER:
		return new(listenerv3.Filter)
	case networking.EnvoyFilter_HTTP_FILTER:
		return new(hcmv3.HttpFilter)
	case networking.EnvoyFilter_LISTENER_FILTER:
		return new(listenerv3.ListenerFilter)
	case networking.EnvoyFilter_ROUTE_CONFIGURATION:
		return new(routev3.RouteConfiguration)
	case networking.EnvoyFilter_VIRTUAL_HOST:
		return new(routev3.VirtualHost)
	case networking.EnvoyFilter_HTTP_ROUTE:
		return new(routev3.Route)
	case networking.EnvoyFilter_CLUSTER:
		return new(clusterv3.Cluster)
	case networking.EnvoyFilter_EXTENSION_CONFIG:
		return new(corev3.TypedExtensionConfig)
	case networking.EnvoyFilter_BOOTSTRAP:
		return new(bootstrapv3.Bootstrap)
	default:
		return nil
	}
}

// parseValue parses a patch's value as the message of type a. Unknown fields are left out, because
// they may be of another version of Envoy's API, and reported as the error unknown. err is set, and
// m nil, if the value cannot be parsed otherwise.
func parseValue(a applyTo, value *structpb.Struct) (m proto.Message, unknown, err error) {
	if m = newValue(a); m == nil {
		return nil, nil, fmt.Errorf("%s cannot be patched", a)
	}
	js, err := value.MarshalJSON()
	if err != nil {
		return nil, nil, stableError(err)
	}
	if unknown = protojson.Unmarshal(js, m); unknown == nil {
		return m, nil, nil
	}
	m = newValue(a)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(js, m); err != nil {
		return nil, nil, unreadableValue(err)
	}
	return m, stableError(unknown), nil
}

// unreadableValue returns an error that explains why a value cannot be parsed; err is
// protojson's error and is not wrapped. If a type cannot be resolved, the explanation depends
// on its name: version 2 of Envoy's API, a type that only Istio's Envoy has, or any other type,
// for which it recommends a TypedStruct. For any other err, the result is its text without
// protojson's varying spaces.
func unreadableValue(err error) error {
	text := stableError(err).Error()
	_, rest, ok := strings.Cut(text, "unable to resolve \"")
	if !ok {
		return errors.New(text)
	}
	url, _, _ := strings.Cut(rest, "\"")
	name := url[strings.LastIndexByte(url, '/')+1:]
	switch {
	case strings.HasPrefix(name, "envoy.") && (strings.Contains(name, ".v2.") || strings.Contains(name, ".v2alpha")):
		return fmt.Errorf("there is no type %q: version 2 of Envoy's API was removed, use version 3", url)
	case !strings.HasPrefix(name, "envoy.") && (strings.Contains(name, "istio") || strings.HasPrefix(name, "stats.")):
		return fmt.Errorf("there is no type %q: upstream Envoy does not have this extension of Istio's", url)
	default:
		return fmt.Errorf("there is no type %q; if your proxies have it, write it as an xds.type.v3.TypedStruct", url)
	}
}

// checkConfigured returns an error if m is a filter with neither a typed config nor
// config_discovery: Envoy does not look up filters by name. It returns nil for other messages.
func checkConfigured(m proto.Message) error {
	var typed *anypb.Any
	switch m := m.(type) {
	case *listenerv3.Filter:
		if m.GetConfigDiscovery() != nil {
			return nil
		}
		typed = m.GetTypedConfig()
	case *listenerv3.ListenerFilter:
		if m.GetConfigDiscovery() != nil {
			return nil
		}
		typed = m.GetTypedConfig()
	case *hcmv3.HttpFilter:
		if m.GetConfigDiscovery() != nil {
			return nil
		}
		typed = m.GetTypedConfig()
	default:
		return nil
	}
	if typed.GetTypeUrl() == "" {
		return errors.New(
			"has neither typed_config nor config_discovery, and Envoy no longer looks filters up by name",
		)
	}
	return nil
}

// setPassingDefault sets the default configuration of an HTTP filter with config_discovery, if it is
// not set, to a configuration that passes all requests. Envoy uses the default until it has a valid
// configuration. Without a default it answers all requests with status 500, also between the
// rejection of a configuration and the listener without the filter. Other messages stay unchanged.
func setPassingDefault(m proto.Message) error {
	f, ok := m.(*hcmv3.HttpFilter)
	if !ok || f.GetConfigDiscovery() == nil || f.GetConfigDiscovery().GetDefaultConfig() != nil {
		return nil
	}
	passing, err := pack(new(rbacv3.RBAC)) // without rules
	if err != nil {
		return err
	}
	source := f.GetConfigDiscovery()
	source.DefaultConfig = passing
	if !slices.Contains(source.GetTypeUrls(), passing.GetTypeUrl()) {
		source.TypeUrls = append(source.TypeUrls, passing.GetTypeUrl())
	}
	return nil
}
