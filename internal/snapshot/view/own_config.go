package view

import (
	"bytes"
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// proxyConfigOverrides returns the settings in a proxy's metadata that differ from the mesh's:
// proxyHeaders, connectionSettings and tracing of its ProxyConfig, and
// [snapshot.Settings.ProxyMetadataFor]. all is their encoding, which Settings.WithProxyConfig
// parses; clusters is the encoding of the parts that outbound clusters depend on. Either is "" if
// nothing differs. logService reports whether the proxy's ProxyConfig has an access log service
// with an address (readOwnConfig).
func proxyConfigOverrides(s *snapshot.Settings, p *mesh.Proxy) (all, clusters string, logService bool) {
	metadata := s.ProxyMetadataFor(&p.Metadata)
	if metadata == nil && !mentionsOverrides(p.Metadata.ProxyConfig) {
		return "", "", false // as for most proxies
	}
	own, defaults := &meshconfig.ProxyConfig{ProxyMetadata: metadata}, s.Mesh.GetDefaultConfig()
	logService = readOwnConfig(own, p.Metadata.ProxyConfig, defaults)
	return encodeOwn(own), encodeOwn(forClusters(own, defaults)), logService
}

// mentionsOverrides reports whether raw, a ProxyConfig in JSON, may have fields that readOwnConfig
// reads. It is cheaper than parsing.
func mentionsOverrides(raw json.RawMessage) bool {
	return slices.ContainsFunc(
		[]string{`"proxyHeaders"`, `"connectionSettings"`, `"envoyAccessLogService"`, `"tracing"`},
		func(field string) bool { return bytes.Contains(raw, []byte(field)) },
	)
}

// readOwnConfig sets in own the fields proxyHeaders, connectionSettings and tracing of raw, a
// ProxyConfig in JSON, each if it differs from defaults, the mesh's. A field that cannot be parsed
// is ignored.
//
// It reports whether raw has an address in envoyAccessLogService, so that the proxy's bootstrap has
// the cluster of that service. Envoy rejects a listener that logs to an unknown cluster. If raw is
// not valid JSON, it changes nothing and returns false.
func readOwnConfig(
	own *meshconfig.ProxyConfig,
	raw json.RawMessage,
	defaults *meshconfig.ProxyConfig,
) (logService bool) {
	var fields struct {
		ProxyHeaders          json.RawMessage `json:"proxyHeaders"`
		ConnectionSettings    json.RawMessage `json:"connectionSettings"`
		Tracing               json.RawMessage `json:"tracing"`
		EnvoyAccessLogService struct {
			Address string `json:"address"`
		} `json:"envoyAccessLogService"`
	}
	if json.Unmarshal(raw, &fields) != nil {
		return false
	}
	if h := new(meshconfig.ProxyConfig_ProxyHeaders); unmarshalIfPresent(fields.ProxyHeaders, h) &&
		!proto.Equal(h, defaults.GetProxyHeaders()) {
		own.ProxyHeaders = h
	}
	if c := new(meshconfig.ProxyConfig_ConnectionSettings); unmarshalIfPresent(fields.ConnectionSettings, c) &&
		!proto.Equal(c, defaults.GetConnectionSettings()) {
		own.ConnectionSettings = c
	}
	if t := new(meshconfig.Tracing); unmarshalIfPresent(fields.Tracing, t) {
		if t = spanSettings(t); !proto.Equal(t, spanSettings(defaults.GetTracing())) {
			own.Tracing = t
		}
	}
	return fields.EnvoyAccessLogService.Address != ""
}

// spanSettings returns the fields of t that listeners depend on, or nil if t is nil. The others,
// the tracer and its TLS settings, are in the bootstrap.
func spanSettings(t *meshconfig.Tracing) *meshconfig.Tracing {
	if t == nil {
		return nil
	}
	return &meshconfig.Tracing{
		Sampling:         t.GetSampling(),
		CustomTags:       t.GetCustomTags(),
		MaxPathTagLength: t.GetMaxPathTagLength(),
		EnableIstioTags:  t.GetEnableIstioTags(),
	}
}

// forClusters returns a new message with the fields of own that outbound clusters depend on, each
// if it differs from defaults, the mesh's. It is empty, not nil, if none differs. Clusters are most
// of a proxy's configuration, so proxies that differ only in other fields share them.
func forClusters(own, defaults *meshconfig.ProxyConfig) *meshconfig.ProxyConfig {
	part := new(meshconfig.ProxyConfig)
	if h := own.GetProxyHeaders(); h != nil {
		keep := h.GetPreserveHttp1HeaderCase().GetValue()
		if keep != defaults.GetProxyHeaders().GetPreserveHttp1HeaderCase().GetValue() {
			part.ProxyHeaders = &meshconfig.ProxyConfig_ProxyHeaders{PreserveHttp1HeaderCase: wrapperspb.Bool(keep)}
		}
	}
	if c := own.GetConnectionSettings(); c != nil {
		limit := c.GetClusterPerConnectionBufferLimitBytes()
		if !proto.Equal(limit, defaults.GetConnectionSettings().GetClusterPerConnectionBufferLimitBytes()) {
			part.ConnectionSettings = &meshconfig.ProxyConfig_ConnectionSettings{
				ClusterPerConnectionBufferLimitBytes: limit,
			}
		}
	}
	return part
}

// encodeOwn encodes own in the form that Settings.WithProxyConfig parses. It returns "" if own is
// empty or cannot be encoded.
func encodeOwn(own *meshconfig.ProxyConfig) string {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(own)
	if err != nil {
		return ""
	}
	return string(encoded)
}

// unmarshalIfPresent parses text into m and reports whether it succeeded. It returns false for
// empty text. Unknown fields of a newer API are ignored.
func unmarshalIfPresent(text json.RawMessage, m proto.Message) bool {
	return len(text) > 0 && (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, m) == nil
}
