package decode

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TestStatus: of a status that affects configuration the relevant fields are decoded and included
// in the hash; other statuses are ignored.
func TestStatus(t *testing.T) {
	entry := `{"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry", "metadata": {"name": "a", "namespace": "default"},
		"spec": {"hosts": ["a.example.com"], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "resolution": "DNS"}`
	workload := `{"apiVersion": "networking.istio.io/v1", "kind": "WorkloadEntry", "metadata": {"name": "a", "namespace": "default"},
		"spec": {"address": "192.0.2.1"}`
	rule := `{"apiVersion": "networking.istio.io/v1", "kind": "DestinationRule", "metadata": {"name": "a", "namespace": "default"},
		"spec": {"host": "a"}`
	healthy := `"conditions": [{"type": "Ready", "status": "False"}, {"type": "Healthy", "status": "True", "lastProbeTime": "2026-01-01T00:00:00Z"}]`
	for _, c := range []struct {
		name, object, status string
		want                 *config.Status
	}{
		{"nothing", entry, ``, nil},
		{"addresses", entry, `{"addresses": [{"host": "A.example.com", "value": "240.240.0.1"}], "observedGeneration": "3"}`,
			&config.Status{Addresses: []config.HostAddress{{Host: "a.example.com", Address: "240.240.0.1"}}}},
		{"no addresses", entry, `{"conditions": [{"type": "Reconciled", "status": "True"}]}`, nil},
		{"nonsense", entry, `{"addresses": "many"}`, nil},
		{"health", workload, `{` + healthy + `}`, &config.Status{Healthy: true}},
		{"ill health", workload, `{"conditions": [{"type": "Healthy", "status": "False"}]}`, nil},
		{"another kind", rule, `{` + healthy + `, "addresses": [{"host": "a", "value": "240.240.0.1"}]}`, nil},
	} {
		without, text := Object([]byte(c.object+"}")), c.object+"}"
		if c.status != "" {
			text = c.object + `, "status": ` + c.status + "}"
		}
		d := Object([]byte(text))
		if d.Config == nil || without.Config == nil {
			t.Errorf("%s: %v", c.name, d.Problems)
			continue
		}
		if diff := cmp.Diff(c.want, d.Config.Status); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.name, diff)
		}
		if (d.Config.Hash != without.Config.Hash) != (c.want != nil) {
			t.Errorf("%s: the hash is %x, without a status %x", c.name, d.Config.Hash, without.Config.Hash)
		}
	}
}
