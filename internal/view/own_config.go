package view

import (
	"bytes"
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// ownConfig gives what of the ProxyConfig that a proxy has itself is not the mesh's and the control plane's to follow: headers
// and connection settings, in the form that Settings.With reads; "" for nothing. logService says that the proxy has the cluster of
// an access log service in its bootstrap (envoyAccessLogService): a listener that logs to a cluster that is not there is refused.
func ownConfig(s *snapshot.Settings, p *mesh.Proxy) (text string, logService bool) {
	raw := p.Metadata.ProxyConfig
	if !slices.ContainsFunc([]string{"proxyHeaders", "connectionSettings", "envoyAccessLogService"}, func(field string) bool {
		return bytes.Contains(raw, []byte(field))
	}) {
		return "", false
	}
	var fields struct {
		ProxyHeaders          json.RawMessage `json:"proxyHeaders"`
		ConnectionSettings    json.RawMessage `json:"connectionSettings"`
		EnvoyAccessLogService struct {
			Address string `json:"address"`
		} `json:"envoyAccessLogService"`
	}
	if json.Unmarshal(raw, &fields) != nil {
		return "", false
	}
	logService = fields.EnvoyAccessLogService.Address != ""
	own, all := new(meshconfig.ProxyConfig), s.Mesh.GetDefaultConfig()
	if h := new(meshconfig.ProxyConfig_ProxyHeaders); read(fields.ProxyHeaders, h) && !proto.Equal(h, all.GetProxyHeaders()) {
		own.ProxyHeaders = h
	}
	if c := new(meshconfig.ProxyConfig_ConnectionSettings); read(fields.ConnectionSettings, c) && !proto.Equal(c, all.GetConnectionSettings()) {
		own.ConnectionSettings = c
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(own)
	if err != nil {
		return "", logService
	}
	return string(encoded), logService
}

// read reads a message that is there. Fields of a newer API are left out.
func read(text json.RawMessage, m proto.Message) bool {
	return len(text) > 0 && (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, m) == nil
}
