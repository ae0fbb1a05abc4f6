package listener

import (
	"testing"
	"time"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func meshWith(s *meshconfig.ProxyConfig_ConnectionSettings) *meshconfig.MeshConfig {
	m := mesh.DefaultMeshConfig()
	m.DefaultConfig.ConnectionSettings = s
	return m
}

// TestEdgeIsForGateways: the profile sets its defaults for gateways where the user has not set the
// field, and changes nothing for sidecars.
func TestEdgeIsForGateways(t *testing.T) {
	m := meshWith(&meshconfig.ProxyConfig_ConnectionSettings{
		Profile: meshconfig.ProxyConfig_ConnectionSettings_EDGE, HttpRequestTimeout: durationpb.New(time.Second), HttpMergeSlashes: wrapperspb.Bool(false),
	})
	c := &sharedParts{sidecarConnections: connectionSettings(m, false), gatewayConnections: connectionSettings(m, true)}
	var sidecar, gateway hcmv3.HttpConnectionManager
	builder{sharedParts: c}.applyConnectionSettings(&sidecar)
	builder{sharedParts: c, edge: true}.applyConnectionSettings(&gateway)
	if sidecar.GetHttp2ProtocolOptions() != nil || sidecar.GetRequestTimeout().AsDuration() != time.Second {
		t.Errorf("sidecars have %v", &sidecar)
	}
	if gateway.GetHttp2ProtocolOptions().GetMaxConcurrentStreams().GetValue() != 100 || gateway.GetRequestTimeout().AsDuration() != time.Second || gateway.GetMergeSlashes() ||
		gateway.GetPathWithEscapedSlashesAction() != hcmv3.HttpConnectionManager_UNESCAPE_AND_REDIRECT {
		t.Errorf("gateways have %v", &gateway)
	}
	if m.DefaultConfig.ConnectionSettings.HttpMaxConcurrentStreams != nil {
		t.Error("the mesh's own settings were changed")
	}
}

// TestInvalidConnectionSettingsAreOmitted: what Envoy would refuse is as if it were not there.
func TestInvalidConnectionSettingsAreOmitted(t *testing.T) {
	bad := connectionSettings(meshWith(&meshconfig.ProxyConfig_ConnectionSettings{
		HttpIdleTimeout: durationpb.New(-1), HttpMaxConcurrentStreams: wrapperspb.Int32(0), Http2InitialStreamWindowSize: wrapperspb.Int32(65534),
		Http2InitialConnectionWindowSize: wrapperspb.Int32(-1), ListenerPerConnectionBufferLimitBytes: wrapperspb.Int32(-1),
	}), true)
	var m hcmv3.HttpConnectionManager
	builder{sharedParts: &sharedParts{sidecarConnections: bad}}.applyConnectionSettings(&m)
	if m.GetCommonHttpProtocolOptions() != nil || m.GetHttp2ProtocolOptions() != nil {
		t.Errorf("%v", &m)
	}
}
