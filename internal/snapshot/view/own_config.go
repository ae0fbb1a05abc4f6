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

// ownConfig returns the part of the proxy's own ProxyConfig that the control plane follows and that differs from the mesh's:
// headers and connection settings. all is in the form that Settings.With reads, "" if nothing differs; clusters is the part of
// it that outbound clusters depend on. logService reports whether the proxy has the cluster of an access log service in its
// bootstrap (envoyAccessLogService): a listener that logs to a cluster that is not there is refused.
func ownConfig(s *snapshot.Settings, p *mesh.Proxy) (all, clusters string, logService bool) {
	raw := p.Metadata.ProxyConfig
	if !slices.ContainsFunc([]string{"proxyHeaders", "connectionSettings", "envoyAccessLogService"}, func(field string) bool {
		return bytes.Contains(raw, []byte(field))
	}) {
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
	if h := new(meshconfig.ProxyConfig_ProxyHeaders); read(fields.ProxyHeaders, h) && !proto.Equal(h, defaults.GetProxyHeaders()) {
		own.ProxyHeaders = h
	}
	if c := new(meshconfig.ProxyConfig_ConnectionSettings); read(fields.ConnectionSettings, c) &&
		!proto.Equal(c, defaults.GetConnectionSettings()) {
		own.ConnectionSettings = c
	}
	return encodeOwn(own), encodeOwn(forClusters(own, defaults)), logService
}

// forClusters returns the fields of own that outbound clusters depend on, if they differ from the mesh's. Clusters are most of
// what a proxy is sent: proxies whose own fields are others share them.
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
			part.ConnectionSettings = &meshconfig.ProxyConfig_ConnectionSettings{ClusterPerConnectionBufferLimitBytes: limit}
		}
	}
	return part
}

// encodeOwn returns the form that Settings.With reads.
func encodeOwn(own *meshconfig.ProxyConfig) string {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(own)
	if err != nil {
		return ""
	}
	return string(encoded)
}

// read reads a message that is there. Fields of a newer API are left out.
func read(text json.RawMessage, m proto.Message) bool {
	return len(text) > 0 && (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, m) == nil
}
