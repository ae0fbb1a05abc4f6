package xds_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/anypb"

	mcp "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/ingest/source/xds"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TestReadResource reads one resource as an object of several kinds. Only its own kind is accepted.
func TestReadResource(t *testing.T) {
	spec := &networking.ServiceEntry{
		Hosts:      []string{"a.example.com"},
		Ports:      []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
		Resolution: networking.ServiceEntry_DNS,
	}
	body, err := anypb.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	resource, err := anypb.New(&mcp.Resource{Metadata: &mcp.Metadata{Name: "default/a"}, Body: body})
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[api.Kind]string{
		api.ServiceEntry: "",
		api.Sidecar:      "spec: is a istio.networking.v1alpha3.ServiceEntry, not a istio.networking.v1alpha3.Sidecar",
		api.Service:      "the kind Service is not an Istio kind",
		"Unknown":        "the kind Unknown is unknown",
	} {
		name, object, problems := xds.ReadResource(kind, resource)
		if want == "" {
			if name != "default/a" || object == nil || len(problems) > 0 {
				t.Errorf("%s: object %v of name %q, Problems %v", kind, object, name, problems)
			}
			continue
		}
		if object != nil || len(problems) != 1 || problems[0].Severity != config.Error ||
			!strings.Contains(problems[0].String(), want) {
			t.Errorf("%s: object %v, Problems %v, want %q", kind, object, problems, want)
		}
	}
}
