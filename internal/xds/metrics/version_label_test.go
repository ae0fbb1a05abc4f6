package metrics

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestVersionLabels checks that the number of time series is bounded whatever versions proxies
// report.
func TestVersionLabels(t *testing.T) {
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "proxies"}, []string{"version"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(gauge)
	series := func() map[string]float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				values[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
		return values
	}
	v := &versionLabels{gauge: gauge, proxies: map[string]int{}}
	for _, version := range []string{"1.31.0", "1.31.0", "1.31-alpha.0f2a", "", "hello", "1.31.0\nforged", "1." + fmt.Sprint(1<<40), "x1.2"} {
		v.count(version, 1)
	}
	if s := series(); len(s) != 3 || s["1.31.0"] != 2 || s["1.31-alpha.0f2a"] != 1 || s[unknownVersion] != 5 {
		t.Errorf("unexpected series: %v", s)
	}
	for i := range 10_000 {
		v.count(fmt.Sprintf("9.9.%d", i), 1)
	}
	if n := len(series()); n > maxVersions+1 {
		t.Errorf("10,000 versions create %d series, want at most %d", n, maxVersions+1)
	}
	for i := range 10_000 {
		v.count(fmt.Sprintf("9.9.%d", i), -1)
	}
	v.count("1.31-alpha.0f2a", -1)
	v.count("1.32.0", 1) // capacity is free again
	if s := series(); len(s) != 3 || s["1.31.0"] != 2 || s["1.32.0"] != 1 || s[unknownVersion] != 5 {
		t.Errorf("unexpected series after versions were removed: %v", s)
	}
}
