package decode

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TestStored checks that an unknown field of a newer API in an object of an API server is only
// ignored, and that other mistakes have the same consequence as in a file.
func TestStored(t *testing.T) {
	for _, test := range []struct {
		about, body string
		used        bool
		problems    []string
	}{
		{"a field of a newer API", `{"apiVersion":"networking.istio.io/v1","kind":"DestinationRule","metadata":{"name":"a","namespace":"b","managedFields":[]},
			"spec":{"host":"a","fromTheFuture":1,"trafficPolicy":{"loadBalancer":{"simple":"RANDOM"},"alsoNew":{"x":[]}}}}`, true,
			[]string{
				"warning: DestinationRule/b/a: spec.fromTheFuture: is not known to this version of meshpilot, and has no effect",
				"warning: DestinationRule/b/a: spec.trafficPolicy.alsoNew: is not known to this version of meshpilot, and has no effect",
			}},
		{"a wrong type", `{"apiVersion":"networking.istio.io/v1","kind":"DestinationRule","metadata":{"name":"a","namespace":"b"},
			"spec":{"host":["a"],"fromTheFuture":1}}`, false,
			[]string{
				"warning: DestinationRule/b/a: spec.fromTheFuture: is not known to this version of meshpilot, and has no effect",
				"error: DestinationRule/b/a: spec.host: must be a string, found a list",
			}},
	} {
		t.Run(test.about, func(t *testing.T) {
			d := Stored([]byte(test.body))
			if used := d.Config != nil; used != test.used {
				t.Errorf("used: %v", used)
			}
			var got []string
			for _, p := range d.Problems {
				got = append(got, string(p.Severity)+": "+p.String())
			}
			if diff := cmp.Diff(test.problems, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if d.Config != nil && config.Spec[*networking.DestinationRule](d.Config).Host != "a" {
				t.Error("the stored object was not decoded")
			}
		})
	}
}
