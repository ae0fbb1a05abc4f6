package report_test

import (
	"math"
	"testing"

	"github.com/meshpilot/meshpilot/test/perf/report"
)

func TestDrift(t *testing.T) {
	flat, grows, settles := make([]float64, 100), make([]float64, 100), make([]float64, 100)
	for i := range flat {
		noise := math.Sin(float64(i) * 1.7)
		flat[i], grows[i] = 1000+noise, 1000+float64(i)+noise
		settles[i] = 1000 + noise + 500*math.Max(0, 1-float64(i)/40)
	}
	for name, tt := range map[string]struct {
		samples []float64
		want    float64
	}{
		"flat": {flat, 0}, "grows by one a sample": {grows, 4.5}, "grows in the first half alone": {settles, 0},
		"too few": {flat[:3], 0}, "none": {nil, 0},
	} {
		if got := report.Drift(tt.samples); math.Abs(got-tt.want) > 0.2 {
			t.Errorf("%s: %.2f %%, want %.2f %%", name, got, tt.want)
		}
	}
}

func TestHistogram(t *testing.T) {
	var h report.Histogram
	if h.Quantile(0.99) != 0 {
		t.Error("an empty histogram has a quantile")
	}
	for i := range 1000 {
		h.Add(float64(i + 1))
	}
	l := h.Latency()
	if l.N != 1000 || l.Max != 1000 || math.Abs(l.Median-500) > 26 || math.Abs(l.P99-990) > 50 {
		t.Errorf("latencies %+v", l)
	}
	h.Add(1e12)
	if got := h.Quantile(1); got > 1e12 || got < 1e6 {
		t.Errorf("the largest: %v", got)
	}
}
