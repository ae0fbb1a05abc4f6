package apicoverage

import (
	"cmp"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/agent"
	"github.com/meshpilot/meshpilot/internal/agent/node"
	agentconfig "github.com/meshpilot/meshpilot/internal/agent/proxyconfig"
	"github.com/meshpilot/meshpilot/internal/diagnostics/analysis"
	"github.com/meshpilot/meshpilot/internal/ingest/source/xds"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// said returns the reports about a message: of validation, the registries, the analysis and the
// translation.
func said(t *testing.T, s Subject, m proto.Message) []config.Problem {
	t.Helper()
	switch m := m.(type) {
	case *meshconfig.MeshConfig:
		return append(translate.UnhonouredMesh(m), bySource(m)...)
	case *meshconfig.ProxyConfig:
		list := translate.UnhonouredMesh(&meshconfig.MeshConfig{DefaultConfig: m})
		for i := range list {
			list[i].Field = strings.TrimPrefix(list[i].Field, "defaultConfig.")
		}
		return append(list, byAgent(t, m)...)
	case *meshconfig.Network:
		list := byAnalysis(t, nil, &meshconfig.MeshNetworks{Networks: map[string]*meshconfig.Network{"n": m}})
		for i := range list {
			list[i].Field = strings.TrimPrefix(list[i].Field, "networks[n].")
		}
		return list
	case *meshconfig.MeshNetworks:
		return byAnalysis(t, nil, m)
	}
	o, err := config.New(config.Meta{
		Key: config.Key{Kind: s.Kind, Namespace: "default", Name: "subject"}, Created: time.Unix(1000, 0),
	}, m)
	if err != nil {
		t.Fatal(err)
	}
	list := config.Validate(o)
	return append(list, byAnalysis(t, fixture.Events(mesh.Upsert, o), nil)...)
}

// byAnalysis returns the Problems of the registries and the analysis for a mesh with only this
// object.
func byAnalysis(t *testing.T, events mesh.Batch, networks *meshconfig.MeshNetworks) []config.Problem {
	t.Helper()
	// Zone-aware routing depends on a setting of the proxies, which has a Problem of its own.
	around := fixture.New(t, nil, []byte(`defaultConfig: {proxyMetadata: {ISTIO_META_ENABLE_SELF_DISCOVERY: "true"}}`))
	if networks != nil {
		events = append(events, mesh.Event{Settings: &mesh.Settings{Networks: networks}})
	}
	snapshot, _ := around.Send(events...)
	analyzer := analysis.New(analysis.Unhonoured{Object: translate.Unhonoured, Mesh: translate.UnhonouredMesh})
	return append(snapshot.Problems(), analyzer.Analyze(snapshot)...)
}

// bySource returns the Problems of the source of config over xDS.
func bySource(m *meshconfig.MeshConfig) []config.Problem {
	var list []config.Problem
	for _, source := range m.GetConfigSources() {
		source = proto.CloneOf(source)
		source.Address = cmp.Or(source.Address, "xds://127.0.0.1:1")
		if tls := source.TlsSettings; tls != nil && tls.Mode == networking.ClientTLSSettings_DISABLE {
			tls.Mode = networking.ClientTLSSettings_SIMPLE
		}
		if _, err := xds.New(source, xds.Options{}); err != nil {
			field, reason, _ := strings.Cut(strings.TrimPrefix(err.Error(), "tlsSettings: "), ": ")
			list = append(list, config.Problem{Field: "configSources.tlsSettings." + field, Reason: reason, Severity: config.Warning})
		}
	}
	return list
}

// byAgent returns the agent's log and the error that prevents its start.
func byAgent(t *testing.T, m *meshconfig.ProxyConfig) []config.Problem {
	t.Helper()
	said := agentconfig.Warnings(m)
	whole := agentconfig.DefaultConfig()
	proto.Merge(whole, m)
	if m.GetDiscoveryAddress() == "" { // fields that need an identity are reported in cases with an identity
		whole.DiscoveryAddress, whole.ControlPlaneAuthPolicy = "istiod.istio-system.svc:15010", meshconfig.AuthenticationPolicy_NONE
	}
	if tls := whole.GetTracing().GetTlsSettings(); tls != nil && whole.GetTracing().GetTracer() == nil {
		whole.Tracing.Tracer = &meshconfig.Tracing_Zipkin_{Zipkin: &meshconfig.Tracing_Zipkin{Address: "192.0.2.1:9411"}}
		if tls.Mode == networking.ClientTLSSettings_DISABLE {
			tls.Mode = networking.ClientTLSSettings_SIMPLE
		}
	}
	whole.ConfigPath = t.TempDir()
	_, err := agent.Prepare(t.Context(), agent.Options{
		Config: whole, Node: node.Node{Addresses: []netip.Addr{netip.MustParseAddr("10.9.9.9")}}, Log: slog.New(slog.DiscardHandler),
	})
	for _, err := range []error{agentconfig.Validate(whole), err} {
		if err != nil {
			said = append(said, strings.Split(err.Error(), "\n")...)
		}
	}
	var list []config.Problem
	for _, line := range said {
		if found := aboutField.FindStringSubmatch(line); found != nil {
			list = append(list, config.Problem{Field: found[1], Reason: strings.TrimPrefix(found[2], ": "), Severity: config.Warning})
		}
	}
	return list
}

var aboutField = regexp.MustCompile(`field "([^"]*)"( has no effect: .*|: .*)`)
