package telemetry

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

func read[M proto.Message](t *testing.T, into M, text string) M {
	t.Helper()
	if err := protojson.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
	return into
}

func fieldsOf(list []config.Problem) []string {
	var fields []string
	for _, p := range list {
		fields = append(fields, p.Field)
	}
	return fields
}

func TestUnhonoured(t *testing.T) {
	spec := read(t, new(telemetry.Telemetry), `{"metrics": [{"reportingInterval": "5s", "overrides": [
		{"match": {"metric": "GRPC_REQUEST_MESSAGES"}}, {"match": {"metric": "GRPC_RESPONSE_MESSAGES"}}, {"match": {"customMetric": "mine"}},
		{"match": {"metric": "REQUEST_COUNT"}}, {"match": {"customMetric": "requests_total"}}, {"match": {"mode": "CLIENT"}}, {},
		{"tagOverrides": {"standard": {"value": "request.host"}, "other": {"value": "request.host"}}}
	]}]}`)
	want := []string{
		"spec.metrics[0].reportingInterval", "spec.metrics[0].overrides[0].match.metric", "spec.metrics[0].overrides[1].match.metric",
		"spec.metrics[0].overrides[2].match.customMetric", "spec.metrics[0].overrides[7].tagOverrides[standard]",
	}
	if got := fieldsOf(Unhonoured(spec)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestMeshIsFollowed: the usual settings of a MeshConfig have no Problems.
func TestMeshIsFollowed(t *testing.T) {
	m := read(t, new(meshconfig.MeshConfig), `{"accessLogFile": "/dev/stdout", "defaultProviders": {"metrics": ["prometheus"]}, "extensionProviders": [
		{"name": "otel", "opentelemetry": {"service": "otel.a.svc.cluster.local", "port": 4317}},
		{"name": "json", "envoyFileAccessLog": {"path": "/dev/stdout", "logFormat": {"labels": {"a": "%PROTOCOL%"}}}}]}`)
	if found := UnhonouredMesh(m); len(found) > 0 {
		t.Errorf("got %v", found)
	}
}
