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

// proxyConfigOverrides returns the fields proxyHeaders and connectionSettings of the ProxyConfig in
// the proxy's metadata, each if it differs from the mesh's. all is their encoding, which
// Settings.WithProxyConfig parses; clusters is the encoding of the parts that outbound clusters
// depend on. Either is "" if nothing differs. A field that cannot be parsed is ignored.
//
// logService reports whether the ProxyConfig has an address in envoyAccessLogService, so that the
// proxy's bootstrap has the cluster of that service. Envoy rejects a listener that logs to an
// unknown cluster. If the ProxyConfig is not valid JSON, all results are zero.
func proxyConfigOverrides(s *snapshot.Settings, p *mesh.Proxy) (all, clusters string, logService bool) {
	raw := p.Metadata.ProxyConfig
	if !slices.ContainsFunc(
		[]string{"proxyHeaders", "connectionSettings", "envoyAccessLogService"},
		func(field string) bool {
			return bytes.Contains(raw, []byte(field))
		},
	) {
		return "", "", false
	}
	var fields struct {
		ProxyHeaders          json.RawMessage `json:"proxyHeaders"`
		ConnectionSettings    json.RawMessage `json:"connectionSettings"`
		EnvoyAccessLogService struct {
			Address string `json:"address"`
		} `json:"envoyAccessLogService"`
	}
	if json.Unmarshal(raw, &fields) != nil {
		return "", "", false
	}
	logService = fields.EnvoyAccessLogService.Address != ""
	own, defaults := new(meshconfig.ProxyConfig), s.Mesh.GetDefaultConfig()
	if h := new(meshconfig.ProxyConfig_ProxyHeaders); unmarshalIfPresent(fields.ProxyHeaders, h) &&
		!proto.Equal(h, defaults.GetProxyHeaders()) {
		own.ProxyHeaders = h
	}
	if c := new(meshconfig.ProxyConfig_ConnectionSettings); unmarshalIfPresent(fields.ConnectionSettings, c) &&
		!proto.Equal(c, defaults.GetConnectionSettings()) {
		own.ConnectionSettings = c
	}
	return encodeOwn(own), encodeOwn(forClusters(own, defaults)), logService
}

// forClusters returns the fields of own that outbound clusters depend on, if they differ from
// defaults, the mesh's. Clusters are most of a proxy's configuration, so proxies that differ only
// in other fields share them.
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
