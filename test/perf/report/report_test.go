package report_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/test/perf/report"
)

func TestLatency(t *testing.T) {
	got := report.NewLatency([][]float64{{3, 1, 2}, {}, {10, 30, 20, 40}})
	want := report.Latency{N: 7, First: 5.5, Median: 16, P99: 40, Last: 21.5, Max: 40}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if got := report.NewLatency(nil); got != (report.Latency{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		list []float64
		want float64
	}{{nil, 0}, {[]float64{4}, 4}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 4}, 4}} {
		if got := report.Median(c.list); got != c.want {
			t.Errorf("of %v: %v, want %v", c.list, got, c.want)
		}
	}
}

// sample is a file with one scenario that takes so much CPU.
func sample(plane string, proxies int, cpu ...float64) *report.File {
	f := new(report.File)
	for _, c := range cpu {
		f.Runs = append(f.Runs, report.Run{Group: "small/main", Plane: plane, Proxies: proxies, Rows: []report.Row{{
			Scenario: "route", Number: 6, Events: 2, Proxies: proxies, Usage: report.Usage{CPU: c, WallMS: 1000},
			Latency: report.Latency{First: 1, Last: 2}, Values: map[string]float64{"extra_ms": c},
		}}})
	}
	return f
}

func TestWrittenReportIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "a.json")
	want := sample("meshpilot", 10, 0.1, 0.3)
	want.Runs[0].Errors = []string{"broken"}
	want.Runs[1].Rows[0].Errors = []string{"slow"}
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := report.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if d := cmp.Diff([]string{"small/main: broken", "small/main route: slow"}, got.Failures()); d != "" {
		t.Errorf("failures (-want +got)\n%s", d)
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	sample("meshpilot", 10, 0.1).PrintTable(&b)
	// 100 ms for two events are 50 each; for 10 proxies 5,000 µs.
	for _, want := range []string{"small/main: meshpilot", "50.0", "5000.0", "extra_ms 0.1"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}

func TestCompare(t *testing.T) {
	var b strings.Builder
	report.Compare(&b, sample("meshpilot", 10, 0.1, 0.3), sample("istiod", 10, 4))
	lines := strings.Split(b.String(), "\n")
	if !strings.Contains(lines[1], "CPU µs per proxy") || cmp.Diff(strings.Fields(lines[1])[6:], []string{"1e+04", "50", "2e+05", "0", "0.05", "20"}) != "" {
		t.Errorf("the first line of figures is %q", lines[1])
	}
	if strings.Contains(b.String(), "WARNING") || !strings.Contains(b.String(), "extra_ms") {
		t.Errorf("comparison:\n%s", b.String())
	}
	b.Reset()
	report.Compare(&b, sample("meshpilot", 10, 0.1), sample("istiod", 20, 4))
	if !strings.Contains(b.String(), "WARNING: small/main: the runs were set up differently") {
		t.Errorf("no warning of different runs:\n%s", b.String())
	}
}
