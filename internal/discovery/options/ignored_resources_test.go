package options

import (
	"slices"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// TestIgnoredResources checks which kinds are read from API servers with PILOT_IGNORE_RESOURCES and
// PILOT_INCLUDE_RESOURCES.
func TestIgnoredResources(t *testing.T) {
	for _, test := range []struct {
		about   string
		ignored IgnoredResources
		read    []api.Kind
		not     []api.Kind
	}{
		{
			"default", IgnoredResources{},
			[]api.Kind{api.Service, api.VirtualService, api.WasmPlugin, api.HTTPRoute, api.WorkloadEntry}, nil,
		},
		{
			"one", IgnoredResources{Resources: []string{"wasmplugins.extensions.istio.io"}},
			[]api.Kind{api.Service, api.VirtualService, api.TrafficExtension, api.HTTPRoute}, []api.Kind{api.WasmPlugin},
		},
		{
			"a group", IgnoredResources{Resources: []string{"*.istio.io"}},
			[]api.Kind{api.Service, api.HTTPRoute},
			[]api.Kind{api.VirtualService, api.WasmPlugin, api.WorkloadEntry},
		},
		{
			"a group with an exception",
			IgnoredResources{Resources: []string{"*.istio.io"}, Except: []string{"*.networking.istio.io"}},
			[]api.Kind{api.Service, api.VirtualService, api.HTTPRoute}, []api.Kind{api.WasmPlugin},
		},
		{
			"an exception alone", IgnoredResources{Except: []string{"wasmplugins.extensions.istio.io"}},
			[]api.Kind{api.VirtualService}, nil,
		},
		{
			"a built-in kind", IgnoredResources{Resources: []string{"services.", "*."}},
			[]api.Kind{api.Service, api.Ingress}, []api.Kind{api.VirtualService},
		},
	} {
		o := Defaults()
		o.Kubernetes.Ignored = test.ignored
		local, remote := o.LocalKinds(true, true), o.RemoteKinds()
		for _, kind := range test.read {
			if !slices.Contains(local, kind) {
				t.Errorf("%s: %s is not read", test.about, kind)
			}
		}
		for _, kind := range test.not {
			if slices.Contains(local, kind) || slices.Contains(remote, kind) {
				t.Errorf("%s: %s is read", test.about, kind)
			}
		}
	}
}
