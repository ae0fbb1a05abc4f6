package mesh

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// DefaultMeshConfig returns a new MeshConfig with the defaults that its API documents.
func DefaultMeshConfig() *meshconfig.MeshConfig {
	return &meshconfig.MeshConfig{
		ProxyListenPort:          15001,
		ProxyInboundListenPort:   15006,
		ConnectTimeout:           durationpb.New(10 * time.Second),
		ProtocolDetectionTimeout: durationpb.New(0),
		IngressClass:             "istio",
		IngressService:           "istio-ingressgateway",
		IngressControllerMode:    meshconfig.MeshConfig_STRICT,
		EnableTracing:            true,
		AccessLogEncoding:        meshconfig.MeshConfig_TEXT,
		OutboundTrafficPolicy: &meshconfig.MeshConfig_OutboundTrafficPolicy{
			Mode: meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY,
		},
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
		DefaultProviders:               &meshconfig.MeshConfig_DefaultProviders{Metrics: []string{"prometheus"}},
	}
}

// DefaultProxyConfig returns a new ProxyConfig with the defaults that its API documents.
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
		FileFlushInterval:        durationpb.New(time.Second),
	}
}

// ParseMeshConfig parses MeshConfigs in YAML and merges each over the ones before it, beginning
// with the defaults. Fields that a text does not set, or sets to null, keep their value;
// defaultConfig and defaultProviders are merged field by field. Unknown fields are skipped, as in
// Istio, see MeshConfigWarnings. It returns an error for malformed YAML, for a value of a wrong
// type, and for values that would break the mesh (config.ValidateMesh).
func ParseMeshConfig(texts ...[]byte) (*meshconfig.MeshConfig, error) {
	m := DefaultMeshConfig()
	for _, text := range texts {
		given, _, err := parse[*meshconfig.MeshConfig](text)
		if err != nil {
			return nil, fmt.Errorf("mesh config: %w", err)
		}
		var said map[string]any // includes explicit zero values, which a message does not keep
		if err := yaml.Unmarshal(text, &said); err != nil {
			return nil, fmt.Errorf("mesh config: %w", err)
		}
		proxy, providers := m.DefaultConfig, m.DefaultProviders
		replace(m, given, said)
		replaceFieldsBelow(said, proxy, given.DefaultConfig, "defaultConfig", "default_config")
		replaceFieldsBelow(said, providers, given.DefaultProviders, "defaultProviders", "default_providers")
		m.DefaultConfig, m.DefaultProviders = proxy, providers
	}
	if err := faults(config.ValidateMesh(m)); err != nil {
		return nil, fmt.Errorf("mesh config: %w", err)
	}
	return m, nil
}

// ParseMeshNetworks parses MeshNetworks in YAML and returns the networks of all texts. If several
// define a network, the last one is used. Unknown fields are skipped, see MeshNetworksWarnings. It
// returns an error if one text is invalid.
func ParseMeshNetworks(texts ...[]byte) (*meshconfig.MeshNetworks, error) {
	all := &meshconfig.MeshNetworks{}
	for _, text := range texts {
		n, _, err := parse[*meshconfig.MeshNetworks](text)
		if err != nil {
			return nil, fmt.Errorf("mesh networks: %w", err)
		}
		for name, network := range n.GetNetworks() {
			if all.Networks == nil {
				all.Networks = map[string]*meshconfig.Network{}
			}
			all.Networks[name] = network
		}
	}
	return all, nil
}

// MeshConfigWarnings returns a Warning for each part of a mesh configuration that ParseMeshConfig
// skips: fields that Istio has retired, unknown fields, and all but the last value of a key that is
// set several times. It returns nil for a text that cannot be parsed.
func MeshConfigWarnings(text []byte) []config.Problem {
	_, warnings, _ := parse[*meshconfig.MeshConfig](text)
	return warnings
}

// MeshNetworksWarnings returns a Warning for each part of mesh networks that ParseMeshNetworks
// skips, as MeshConfigWarnings does.
func MeshNetworksWarnings(text []byte) []config.Problem {
	_, warnings, _ := parse[*meshconfig.MeshNetworks](text)
	return warnings
}

// parse parses YAML as a message. The warnings are about parts that it skips: unknown and retired
// fields, and all but the last value of a key. The error joins all faults, each with its field; the
// warnings are nil then.
func parse[M proto.Message](text []byte) (m M, warnings []config.Problem, err error) {
	m, _ = m.ProtoReflect().Type().New().Interface().(M) // a new message of type M
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		return m, nil, err
	}
	read, problems := decode.StoredSpec(api.KindInfo{NewSpec: func() proto.Message { return m }}, asJSON)
	for i, p := range problems {
		problems[i].Code = code.InvalidMeshSetting
		problems[i].Field = strings.TrimPrefix(strings.TrimPrefix(p.Field, "spec"), ".")
	}
	wrong := slices.DeleteFunc(
		slices.Clone(problems),
		func(p config.Problem) bool { return p.Severity == config.Warning },
	)
	if len(wrong) > 0 {
		return m, nil, faults(wrong)
	}
	m, _ = read.(M) // the message that NewSpec returned
	return m, append(duplicateKeys(text), problems...), nil
}

// duplicateKeys returns a Warning for each key of a YAML text that is set more than once in a
// mapping. Only the last value is used, as in Istio. The text must be valid otherwise.
func duplicateKeys(text []byte) []config.Problem {
	_, err := yaml.YAMLToJSONStrict(text)
	if err == nil {
		return nil
	}
	var list []config.Problem
	for line := range strings.Lines(err.Error()) {
		if at := strings.TrimSpace(line); strings.HasPrefix(at, "line ") { // "line 3: key "a" already set in map"
			list = append(list, config.Problem{
				Code: code.InvalidMeshSetting, Reason: at + "; the last value is used", Severity: config.Warning,
			})
		}
	}
	return list
}

// faults returns an error that joins all problems, or nil if there are none.
func faults(problems []config.Problem) error {
	list := make([]error, len(problems))
	for i, p := range problems {
		if list[i] = errors.New(p.Reason); p.Field != "" {
			list[i] = fmt.Errorf("%s: %s", p.Field, p.Reason)
		}
	}
	return errors.Join(list...)
}

// replaceFieldsBelow calls replace(dst, src, x) for each object x that said has under one of the
// names. dst and src are the messages of this field, not of its parent. So each field of dst that
// is named in x is set to its value in src, or cleared, unless x has null for it. It does nothing
// for a name that is missing in said or no object there.
func replaceFieldsBelow(said map[string]any, dst, src proto.Message, names ...string) {
	for _, name := range names {
		if fields, ok := said[name].(map[string]any); ok {
			replace(dst, src, fields)
		}
	}
}

// replace sets every field of dst whose name is in said, in the JSON or protobuf spelling, to its
// value in src. It clears the field if src lacks it. Other names, and null in said, are ignored.
// dst then shares the values with src.
func replace(dst, src proto.Message, said map[string]any) {
	d, from := dst.ProtoReflect(), src.ProtoReflect()
	fields := d.Descriptor().Fields()
	for name, value := range said {
		f := fields.ByJSONName(name)
		if f == nil {
			f = fields.ByName(protoreflect.Name(name))
		}
		switch {
		case f == nil || value == nil: // unknown fields were skipped when src was parsed
		case from.Has(f):
			d.Set(f, from.Get(f))
		default:
			d.Clear(f)
		}
	}
}
