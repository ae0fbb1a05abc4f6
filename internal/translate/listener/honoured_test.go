package listener

import (
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func fieldsOf(t *testing.T, list []config.Problem) []string {
	t.Helper()
	var fields []string
	for _, p := range list {
		if p.Severity != config.Warning || p.Reason == "" {
			t.Errorf("%+v is no Warning with a reason", p)
		}
		fields = append(fields, p.Field)
	}
	return fields
}

func TestUnhonouredBindsOfListeners(t *testing.T) {
	const none, captured = networking.CaptureMode_NONE, networking.CaptureMode_IPTABLES
	got := fieldsOf(t, UnhonouredSidecar(&networking.Sidecar{
		Ingress: []*networking.IstioIngressListener{
			{Bind: "10.0.0.1", DefaultEndpoint: "127.0.0.1:1"},
			{Bind: "0.0.0.0"},
			{Bind: "10.0.0.1", CaptureMode: none, DefaultEndpoint: "127.0.0.1:1"},
			{CaptureMode: none},
		},
		Egress: []*networking.IstioEgressListener{
			{Bind: "127.0.0.1"}, {Bind: "::1", CaptureMode: captured}, {Bind: "127.0.0.1", CaptureMode: none}, {Bind: "10.0.0.1"}, {Bind: "unix:///x"},
		},
	}))
	want := []string{"spec.ingress[0].bind", "spec.ingress[3].defaultEndpoint", "spec.egress[0].bind", "spec.egress[1].bind"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNothingOfTheDefaultsIsUnhonoured(t *testing.T) {
	if got := UnhonouredMesh(mesh.DefaultMeshConfig()); got != nil {
		t.Errorf("%v", got)
	}
	m := mesh.DefaultMeshConfig()
	m.DefaultConfig.ConnectionSettings = &meshconfig.ProxyConfig_ConnectionSettings{
		HttpIdleTimeout: durationpb.New(-1), HttpMaxConcurrentStreams: wrapperspb.Int32(0), HttpDrainTimeout: durationpb.New(1),
		ListenerConnectionLimit: wrapperspb.Int32(1),
	}
	m.ProxyListenPort = m.ProxyInboundListenPort
	want := []string{
		"defaultConfig.connectionSettings.listenerConnectionLimit", "defaultConfig.connectionSettings.httpMaxConcurrentStreams",
		"defaultConfig.connectionSettings.httpIdleTimeout", "proxyInboundListenPort",
	}
	if diff := cmp.Diff(want, fieldsOf(t, UnhonouredMesh(m))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
