package telemetry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/random"
)

func words() map[string][]string {
	formats := []string{"%RESPONSE_CODE%", "%REQ(A)% text", "100%", "%FOO%", "%CEL(request.path)%", "", "plain"}
	names := []string{"p0", "p1", "p2", "p3", "p4", "p5", "envoy", "prometheus", "nobody"}
	return map[string][]string{
		"ProviderRef.name": names, "service": {
			"sink.example.com", "telemetry/sink.example.com", "nobody", "",
		}, "text": formats, "Formatter.value": formats,
		"expression": {
			"response.code >= 400", "request.method == 'GET'", "(",
		}, "tagOverrides.key": {"a", "response_code", "destination_workload", "b-c", "standard"},
		"TagOverride.value": {
			"request.host", "string(destination.port)", "'x' + request.path", "foo(",
			"(request.size)%2",
		},
		"customTags.key": {"a", "b"}, "HttpHeader.name": {"x-a", "host", "a b", ":path"}, "HttpHeader.value": {"a", "5%", "a\nb"}, "envName": {"A", "a)%"},
		"customMetric": {"requests_total", "x"}, "path": {
			"/dev/null", "/dev/stderr", "", "/dev/stdout",
		}, "filterStateObjectsToLog": {"a"},
		"additionalRequestHeadersToLog": {"x-a", ":path"}, "labels.key": {"a", "b"}, "additionalResponseHeadersToLog": {"x-b"}, "additionalResponseTrailersToLog": {"x-c"},
	}
}

// TestEnvoyAcceptsRandomTelemetry makes Telemetries and providers at random, takes away what
// validation refuses, and loads the rest into Envoy.
func TestEnvoyAcceptsRandomTelemetry(t *testing.T) {
	const meshes = 200
	var all []*listenerv3.Listener
	clusters := map[string]bool{}
	told, traced := 0, 0
	for seed := range uint64(meshes) {
		s := random.New(seed, words())
		m := mesh.DefaultMeshConfig()
		var services []destination.NamedProvider
		for i := range 6 {
			p := new(meshconfig.MeshConfig_ExtensionProvider)
			s.Fill(p)
			p.Name = fmt.Sprint("p", i)
			m.ExtensionProviders = append(m.ExtensionProviders, p)
			services = append(services,
				destination.NamedProvider{
					Name:     p.Name,
					Provider: destination.Provider{Host: "sink.example.com", Port: 4317},
				},
				destination.NamedProvider{
					Name:     samplerName(p.Name),
					Provider: destination.Provider{Host: "sink.example.com", Port: 443},
				})
		}
		UnhonouredMesh(m)
		rows := make([]*config.Config, 4)
		for i := range rows {
			rows[i] = valid(t, s, i)
		}
		made := newTelemetry(input{
			settings:   &snapshot.Settings{Mesh: m, RootNamespace: "istio-system"},
			rows:       memo.ListOf(rows),
			services:   memo.ListOf(services),
			logService: s.IntN(2) == 0,
		})
		for _, side := range []*Side{&made.Client, &made.Server} {
			all = append(all, listenerOf(len(all), side))
			told += len(side.HTTPLogs) + len(side.TCPLogs)
			if side.Tracing.GetProvider() != nil {
				traced++
			}
		}
		for _, c := range made.Clusters {
			clusters[c] = true
		}
	}
	if told < meshes || traced < meshes/20 {
		t.Errorf("%d logs, %d tracers: the test is not effective", told, traced)
	}
	envoy.Validate(t, envoy.Config{Listeners: all, Clusters: clustersOf(clusters)})
}

// valid makes an object that is.
func valid(t *testing.T, s *random.Source, i int) *config.Config {
	t.Helper()
	spec := new(telemetry.Telemetry)
	s.Fill(spec)
	spec.Selector, spec.TargetRef, spec.TargetRefs = nil, nil, nil
	meta := config.Meta{
		Key:     config.Key{Kind: api.Telemetry, Namespace: "a", Name: fmt.Sprint("t", i)},
		Created: time.Unix(int64(i), 0),
	}
	wrong := func() []string {
		c, err := config.New(meta, spec)
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for _, p := range config.Validate(c) {
			if p.Severity == config.Error {
				paths = append(paths, strings.TrimPrefix(p.Field, "spec."))
			}
		}
		return paths
	}
	if !s.RepairMessage(spec, wrong) {
		return nil
	}
	c, err := config.New(meta, spec)
	if err != nil {
		t.Fatal(err)
	}
	Unhonoured(spec)
	return c
}
