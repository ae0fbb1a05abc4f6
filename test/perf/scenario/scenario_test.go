package scenario_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/scenario"
	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/perf/wire"
	"github.com/meshpilot/meshpilot/test/perf/workload"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/program"
)

// plane builds a control plane.
func plane(t *testing.T) target.Plane {
	t.Helper()
	binary, err := program.Build(t.Context(), "cmd/pilot-discovery")
	if err != nil {
		t.Fatal(err)
	}
	p, err := target.ParsePlane("meshpilot=" + binary)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSmallFleet runs scenarios with a few proxies against a real process, so that changes that
// break the benchmark are noticed.
func TestSmallFleet(t *testing.T) {
	groups, err := scenario.Groups("small")
	if err != nil {
		t.Fatal(err)
	}
	g := groups[0]
	g.Mesh = workload.Params{Services: 10, Endpoints: 2, Routes: 2, Namespaces: 3, Seed: 5}
	const proxies = 6
	quick := []string{"endpoint", "route", "destinationrule", "newservice", "goneservice", "metadata", "restart", "endpoint again", "verify"}
	binary := plane(t)
	for _, delta := range []bool{true, false}[:longtest.Rounds(1, 2)] {
		r, err := scenario.Run(context.Background(), scenario.Options{
			Plane: binary, Dir: t.TempDir(), Source: scenario.FileSource, Delta: delta, FilePerObject: delta, Proxies: proxies,
			Only: quick, Repeat: 1, Settle: 50 * time.Millisecond, Patience: 20 * time.Second, Progress: io.Discard,
		}, g)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range (&report.File{Runs: []report.Run{*r}}).Failures() {
			t.Error(e)
		}
		check(t, r, append([]string{"connect"}, quick...), proxies)
	}
}

// TestSecurityReachesItsProxies: a change of the mutual TLS mode or of an AuthorizationPolicy of a
// namespace is sent to its proxies and to no others.
func TestSecurityReachesItsProxies(t *testing.T) {
	groups, err := scenario.Groups("small")
	if err != nil {
		t.Fatal(err)
	}
	g := groups[slices.IndexFunc(groups, func(g scenario.Group) bool { return g.Name == "small/scoped" })]
	g.Mesh = workload.Params{Services: 8, Endpoints: 1, Routes: 1, Namespaces: 4, Scope: workload.Namespace, Seed: 5}
	r, err := scenario.Run(context.Background(), scenario.Options{
		Plane: plane(t), Dir: t.TempDir(), Source: scenario.FileSource, Delta: true, Proxies: 12,
		Only:   []string{"scoped mode", "scoped policy"},
		Repeat: 2, Settle: 50 * time.Millisecond, Patience: 20 * time.Second, Progress: io.Discard,
	}, g)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range (&report.File{Runs: []report.Run{*r}}).Failures() {
		t.Error(e)
	}
	for i, typ := range []wire.Type{wire.LDS, wire.ECDS} {
		row := r.Rows[len(r.Rows)-2+i]
		if row.Reached != 3 || row.Usage.Types[typ.String()].Resources != 6 {
			t.Errorf("%s reached %d proxies, want the 3 of the namespace, twice with %v: %+v", row.Scenario, row.Reached, typ, row.Usage.Types)
		}
	}
}

// check looks whether the figures can be right.
func check(t *testing.T, r *report.Run, scenarios []string, proxies int) {
	t.Helper()
	rows := map[string]report.Row{}
	for _, row := range r.Rows {
		rows[row.Scenario] = row
	}
	for _, name := range scenarios {
		row, ok := rows[name]
		if !ok {
			t.Errorf("%s: was not played", name)
			continue
		}
		if row.Missing > 0 || row.Usage.CPU <= 0 || row.PeakRSS < 1<<20 || row.Usage.AllocatedBytes <= 0 {
			t.Errorf("%s: missing %d, CPU %v s, peak %d, allocated %v", name, row.Missing, row.Usage.CPU, row.PeakRSS, row.Usage.AllocatedBytes)
		}
		switch name {
		case "metadata":
			if row.Reached > 0 || row.Usage.Messages > 0 {
				t.Errorf("%s: %d messages to %d proxies", name, row.Usage.Messages, row.Reached)
			}
		case "verify":
		default:
			if row.Reached != proxies || row.Latency.N < proxies || row.Latency.First <= 0 || row.Latency.Last < row.Latency.First {
				t.Errorf("%s: reached %d of %d, latencies %+v", name, row.Reached, proxies, row.Latency)
			}
		}
	}
	if whole, again := rows["connect"].Usage.Bytes, rows["restart"].Usage.Bytes; r.Protocol == "delta" && again*20 > whole {
		t.Errorf("after a restart %d bytes were sent to proxies that had everything, %d to new ones", again, whole)
	}
}

func TestGroups(t *testing.T) {
	for _, size := range scenario.Sizes() {
		groups, err := scenario.Groups(size)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range groups {
			if _, err := workload.New(g.Mesh); err != nil {
				t.Errorf("%s: %v", g.Name, err)
			}
			if !strings.HasPrefix(g.Name, size+"/") || len(g.Scenarios) == 0 || g.Proxies == 0 {
				t.Errorf("group %+v", g)
			}
		}
	}
	if _, err := scenario.Groups("tiny"); err == nil {
		t.Error("a size that is unknown: no error")
	}
}

// TestReplicas ends one of three control planes in both ways, and starts it again: all of its proxies
// are served by the others, and it gets proxies back.
func TestReplicas(t *testing.T) {
	groups, err := scenario.Groups("small")
	if err != nil {
		t.Fatal(err)
	}
	g := groups[slices.IndexFunc(groups, func(g scenario.Group) bool { return g.Name == "small/replicas" })]
	g.Mesh = workload.Params{Services: 10, Endpoints: 2, Routes: 2, Namespaces: 3, Seed: 5}
	const proxies = 24
	r, err := scenario.Run(context.Background(), scenario.Options{
		Plane: plane(t), Dir: t.TempDir(), Source: scenario.FileSource, Delta: true, Proxies: proxies,
		Settle: 50 * time.Millisecond, Patience: 30 * time.Second, Progress: io.Discard,
	}, g)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range (&report.File{Runs: []report.Run{*r}}).Failures() {
		t.Error(e)
	}
	for _, row := range r.Rows {
		v := row.Values
		switch row.Scenario {
		case "replica killed", "replica stopped":
			if v["moved_proxies"] == 0 || row.Latency.N != int(v["moved_proxies"]) || row.Latency.First <= 0 ||
				v["fewest_proxies"]+v["most_proxies"] != proxies || v["cpu_s_until_served"] <= 0 {
				t.Errorf("%s: latencies %+v, %v", row.Scenario, row.Latency, v)
			}
		case "replica back":
			// How many each has is not known: proxies go on to move after the half share is reached.
			if v["half_share_s"] <= 0 || v["reconnected_in_busiest_second"] < 1 || v["most_proxies"] <= 0 {
				t.Errorf("%s: %v", row.Scenario, v)
			}
		}
	}
}
