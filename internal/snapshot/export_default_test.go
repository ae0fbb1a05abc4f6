package snapshot

import (
	"slices"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TestDefaultExportOfVirtualService: "~" in the mesh's default hides a VirtualService from all
// namespaces, also beside others, but not beside "*".
func TestDefaultExportOfVirtualService(t *testing.T) {
	none := func(config.Key) *config.Config { return nil }
	for _, c := range []struct{ defaults, exportTo, want []string }{
		{nil, nil, []string{"*"}},
		{[]string{".", "web"}, nil, []string{"shop", "web"}},
		{[]string{"~"}, nil, nil},
		{[]string{"~", "web"}, nil, nil},
		{[]string{"~", "*"}, nil, []string{"*"}},
		{[]string{"~", "web"}, []string{"."}, []string{"shop"}},
	} {
		rule := object(t, api.VirtualService, "shop", "v", 0, &networking.VirtualService{Hosts: []string{"a"}, ExportTo: c.exportTo})
		settings := &Settings{Mesh: &meshconfig.MeshConfig{DefaultVirtualServiceExportTo: c.defaults}}
		if got := newVirtualService(rule, settings, none).exportTo; !slices.Equal(got, c.want) {
			t.Errorf("exportTo %q with the defaults %q is %q, want %q", c.exportTo, c.defaults, got, c.want)
		}
	}
}
