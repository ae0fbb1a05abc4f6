package ingest

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// TestMetricsOfRejectedObjects: an object is counted each time that it becomes invalid, and not
// again while it stays so.
func TestMetricsOfRejectedObjects(t *testing.T) {
	m := obs.NewMetrics()
	b := snapshot.NewBuilder(snapshot.Options{})
	x := NewMetrics(m, b.Current)
	key := config.Key{Kind: api.Gateway, Namespace: "shop", Name: "front"}
	broken := []config.Problem{{Key: key, Reason: "bad", Severity: config.Error}, {Key: key, Reason: "worse", Severity: config.Error}}
	for i, list := range [][]config.Problem{broken, broken, nil, broken, {{Key: key, Reason: "odd", Severity: config.Warning}}} {
		batch := mesh.Batch{{Problems: &mesh.Problems{Scope: "front.yaml", List: list}}}
		x.RecordBatch(batch)
		s, d := b.Apply(batch...)
		x.RecordSnapshot(s, d)
		if want := []float64{1, 1, 1, 2, 2}[i]; rejected(t, m) != want {
			t.Errorf("step %d: %v, want %v", i, rejected(t, m), want)
		}
	}
}

func rejected(t *testing.T, m *obs.Metrics) float64 {
	t.Helper()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "pilot_total_rejected_configs" {
			if l := f.Metric[0].Label; l[0].GetValue() != "shop/front" || l[1].GetValue() != "gateway" {
				t.Errorf("labels %v", l)
			}
			return f.Metric[0].GetCounter().GetValue()
		}
	}
	return 0
}
