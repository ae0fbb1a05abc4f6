package mesh

import (
	"fmt"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"sigs.k8s.io/yaml"
)

// DefaultMeshConfig gives a new MeshConfig with the defaults that its API documents.
func DefaultMeshConfig() *meshconfig.MeshConfig {
	return &meshconfig.MeshConfig{
		ProxyListenPort:                15001,
		ProxyInboundListenPort:         15006,
		ConnectTimeout:                 durationpb.New(10 * time.Second),
		ProtocolDetectionTimeout:       durationpb.New(0),
		IngressClass:                   "istio",
		IngressService:                 "istio-ingressgateway",
		IngressControllerMode:          meshconfig.MeshConfig_STRICT,
		EnableTracing:                  true,
		AccessLogEncoding:              meshconfig.MeshConfig_TEXT,
		OutboundTrafficPolicy:          &meshconfig.MeshConfig_OutboundTrafficPolicy{Mode: meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY},
		EnableAutoMtls:                 wrapperspb.Bool(true),
		EnablePrometheusMerge:          wrapperspb.Bool(true),
		TrustDomain:                    "cluster.local",
		RootNamespace:                  "istio-system",
		DefaultServiceExportTo:         []string{"*"},
		DefaultVirtualServiceExportTo:  []string{"*"},
		DefaultDestinationRuleExportTo: []string{"*"},
		DnsRefreshRate:                 durationpb.New(60 * time.Second),
		LocalityLbSetting:              &networking.LocalityLoadBalancerSetting{Enabled: wrapperspb.Bool(true)},
		DefaultConfig:                  DefaultProxyConfig(),
	}
}

// DefaultProxyConfig gives a new ProxyConfig with the defaults that its API documents.
func DefaultProxyConfig() *meshconfig.ProxyConfig {
	return &meshconfig.ProxyConfig{
		ConfigPath:               "./etc/istio/proxy",
		BinaryPath:               "/usr/local/bin/envoy",
		ClusterName:              &meshconfig.ProxyConfig_ServiceCluster{ServiceCluster: "istio-proxy"},
		DrainDuration:            durationpb.New(45 * time.Second),
		TerminationDrainDuration: durationpb.New(5 * time.Second),
		ProxyAdminPort:           15000,
		DiscoveryAddress:         "istiod.istio-system.svc:15012",
		ControlPlaneAuthPolicy:   meshconfig.AuthenticationPolicy_MUTUAL_TLS,
		StatNameLength:           189,
		StatusPort:               15020,
	}
}

// ParseMeshConfig reads a MeshConfig in YAML over the defaults: what it does not say keeps its default, and what it says
// of defaultConfig is merged field by field. Unknown fields are errors.
func ParseMeshConfig(text []byte) (*meshconfig.MeshConfig, error) {
	m := DefaultMeshConfig()
	defaults := m.DefaultConfig
	given := new(meshconfig.MeshConfig)
	if err := unmarshalYAML(text, given); err != nil {
		return nil, fmt.Errorf("mesh config: %w", err)
	}
	// A proxy config replaces single fields; repeated and message fields of the mesh config are replaced whole.
	proxy := given.DefaultConfig
	given.DefaultConfig = nil
	replace(m, given)
	m.DefaultConfig = defaults
	if proxy != nil {
		proto.Merge(m.DefaultConfig, proxy)
	}
	return m, nil
}

// ParseMeshNetworks reads a MeshNetworks in YAML.
func ParseMeshNetworks(text []byte) (*meshconfig.MeshNetworks, error) {
	n := new(meshconfig.MeshNetworks)
	if err := unmarshalYAML(text, n); err != nil {
		return nil, fmt.Errorf("mesh networks: %w", err)
	}
	return n, nil
}

func unmarshalYAML(text []byte, m proto.Message) error {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	if string(asJSON) == "null" {
		return nil
	}
	return protojson.Unmarshal(asJSON, m)
}

// replace sets every field of dst that is set in src.
func replace(dst, src proto.Message) {
	d := dst.ProtoReflect()
	src.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		d.Set(f, v)
		return true
	})
}
