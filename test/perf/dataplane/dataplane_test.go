package dataplane_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/perf/dataplane"
	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/program"
)

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }

// plane returns a control plane of this checkout.
func plane(t *testing.T) target.Plane {
	t.Helper()
	binary, err := program.Build(t.Context(), "cmd/pilot-discovery")
	if err != nil {
		t.Fatal(err)
	}
	return target.Plane{Kind: target.Meshpilot, Binary: binary}
}

// TestSizes measures sidecars of a small mesh, so that the benchmark stays as good as when it was last run.
func TestSizes(t *testing.T) {
	longtest.Test(t)
	netns.Require(t)
	proxy := envoy.RequireBinary(t)
	sizes, err := dataplane.MeasureSizes(t.Context(), dataplane.Options{
		Planes: []target.Plane{plane(t)}, Envoy: proxy, Services: []int{10, 40}, Rounds: 1, Dir: t.TempDir(), Progress: io.Discard,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(sizes) != 6 {
		t.Fatalf("%d sidecars were measured, want 6", len(sizes))
	}
	const least = 10 << 20 // of the memory of any Envoy
	for _, s := range sizes {
		if s.Resident < least || s.Allocated <= 0 || s.Ready <= 0 || s.CPU <= 0 || s.Received <= 0 || s.Dump["type.googleapis.com/envoy.admin.v3.ListenersConfigDump"] == 0 {
			t.Errorf("%+v", s)
		}
	}
	for i, small := range sizes[:3] {
		if large := sizes[i+3]; small.Received >= large.Received {
			t.Errorf("bytes of 10 services: %d, of 40 services: %d", small.Received, large.Received)
		}
	}
	for _, s := range [][]dataplane.Size{sizes[:3], sizes[3:]} {
		if s[0].Received >= s[1].Received || s[2].Received >= s[1].Received {
			t.Errorf("bytes without metrics: %d, with metrics: %d, on demand: %d", s[0].Received, s[1].Received, s[2].Received)
		}
	}
}

// TestLoads sends a few requests through two sidecars, in one scene.
func TestLoads(t *testing.T) {
	o := loadOptions(t)
	o.Scenes = []string{"metrics"}
	loads := measureLoads(t, o, 2)
	var out strings.Builder
	dataplane.PrintLoads(&out, loads)
	if want := "| meshpilot with metrics | TCP | 50 |"; !strings.Contains(out.String(), want) {
		t.Errorf("the table lacks %q:\n%s", want, &out)
	}
	dumps, err := filepath.Glob(filepath.Join(o.Dir, "*", "*.json"))
	if err != nil || len(dumps) != 2 {
		t.Errorf("dumps of Envoys: %v, %v; want 2", dumps, err)
	}
}

// TestLoadsAtOnce measures two pairs of sidecars at the same time.
func TestLoadsAtOnce(t *testing.T) {
	o := loadOptions(t)
	o.Planes = append(o.Planes, o.Planes[0])
	o.Scenes, o.Protocols, o.AtOnce = []string{"policies"}, []dataplane.Protocol{dataplane.HTTP1}, true
	measureLoads(t, o, 2)
}

const loadRate = 50

// loadOptions returns the options of a short load on the configuration of this checkout's control plane.
func loadOptions(t *testing.T) dataplane.Options {
	t.Helper()
	longtest.Test(t)
	netns.Require(t)
	proxy, ours := envoy.RequireBinary(t), plane(t)
	capture, err := program.Build(t.Context(), "cmd/istio-iptables")
	if err != nil {
		t.Fatal(err)
	}
	return dataplane.Options{
		Planes: []target.Plane{ours}, Envoy: proxy, Capture: capture, Services: []int{4}, Rounds: 1, Dir: t.TempDir(), Progress: io.Discard,
		Rates: []int{loadRate}, Duration: time.Second,
	}
}

// measureLoads measures loads, of which there must be n without a failed request.
func measureLoads(t *testing.T, o dataplane.Options, n int) []dataplane.Load {
	t.Helper()
	loads, err := dataplane.MeasureLoads(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(loads) != n {
		t.Fatalf("%d loads were measured, want %d", len(loads), n)
	}
	for _, l := range loads {
		if l.Failed > 0 || l.Requests < loadRate/2 || l.P50 <= 0 || l.P999 < l.P50 || l.ClientCPU <= 0 || l.ServerCPU <= 0 {
			t.Errorf("%+v", l)
		}
	}
	return loads
}

func TestPrintTable(t *testing.T) {
	ours, theirs := target.Plane{Kind: target.Meshpilot}, target.Plane{Kind: target.Istiod}
	size := func(p target.Plane, metrics bool, resident, received int64) dataplane.Size {
		return dataplane.Size{
			Services: 100, Variant: dataplane.Variant{Plane: p, Features: dataplane.Features{Metrics: metrics}},
			Resident: resident << 20, Received: received << 10,
		}
	}
	var out strings.Builder
	dataplane.PrintTable(&out, []dataplane.Size{
		size(ours, false, 30, 100), size(ours, false, 10, 100), size(ours, false, 20, 100), size(ours, true, 40, 200),
		size(theirs, false, 80, 400), size(theirs, true, 0, 1000),
	})
	for _, want := range []string{
		"| 100 | meshpilot | 20.0 | | | | 100 |", "| 100 | istiod with metrics | | | | | 1000 |",
		"| 100 | meshpilot : istiod | 0.25 | | | | 0.25 |", "| 100 | meshpilot with metrics : istiod with metrics | | | | | 0.20 |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &out)
		}
	}
}

func TestPrintLoads(t *testing.T) {
	load := func(kind string, p50, cpu time.Duration, failed int) dataplane.Load {
		return dataplane.Load{
			Variant: dataplane.Variant{Plane: target.Plane{Kind: kind}}, Protocol: dataplane.TCP, Rate: 1000,
			P50: p50, ClientCPU: cpu, Requests: 1000, Failed: failed,
		}
	}
	const us = time.Microsecond
	var out strings.Builder
	dataplane.PrintLoads(&out, []dataplane.Load{
		load(target.Meshpilot, 300*us, 40*us, 0), load(target.Istiod, 500*us, 80*us, 1), load(target.Meshpilot, 100*us, 40*us, 2),
		load(target.Istiod, 300*us, 80*us, 0), load(target.Meshpilot, 200*us, 40*us, 0), load(target.Istiod, 400*us, 80*us, 0),
	})
	for _, want := range []string{
		"| meshpilot | TCP | 1000 | 200.0 (0.50, 0.33–0.60) | 0.0 | 0.0 | 0.0 | 40.0 (0.50, 0.50–0.50) | 0.0 | 2 | 0.0 |",
		"| istiod | TCP | 1000 | 400.0 | 0.0 | 0.0 | 0.0 | 80.0 | 0.0 | 1 | 0.0 |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &out)
		}
	}
}
