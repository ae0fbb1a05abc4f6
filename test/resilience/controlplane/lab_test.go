package controlplane

import (
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/scenario"
	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/perf/workload"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

func TestMain(m *testing.M) { os.Exit(netns.TestMain(m)) }

// patience is the timeout of each wait for the control plane.
const patience = 2 * time.Minute

// controlPlane builds this project's control plane, or returns the other one that is to be
// measured, which may need an API server. It returns the kubeconfig of that.
func controlPlane(t *testing.T) (p target.Plane, kubeconfig string) {
	t.Helper()
	if peer := scorecard.Peer(); peer != "" {
		return target.Plane{Kind: target.Istiod, Binary: peer}, cluster.Start(t, cluster.Options{IstioKinds: true}).Kubeconfig()
	}
	binary, err := program.Build(t.Context(), "cmd/pilot-discovery")
	if err != nil {
		t.Fatal(err)
	}
	return target.Plane{Kind: target.Meshpilot, Binary: binary}, ""
}

// options returns how scenarios are run by default: delta, config from files.
func options(t *testing.T) scenario.Options {
	t.Helper()
	p, kubeconfig := controlPlane(t)
	return scenario.Options{
		Plane: p, Kubeconfig: kubeconfig, Dir: t.TempDir(), Source: scenario.FileSource, Delta: true, Repeat: 3,
		Settle: 200 * time.Millisecond, Patience: patience, Progress: t.Output(),
	}
}

// play runs scenarios with one process and returns their rows by name. Errors fail the test, except
// for another control plane: its figures are the result.
func play(t *testing.T, o scenario.Options, mesh workload.Params, proxies int,
	list ...scenario.Scenario) map[string]report.Row {
	t.Helper()
	mesh.Seed = 1
	run, err := scenario.Run(t.Context(), o, scenario.Group{Name: t.Name(), Mesh: mesh, Proxies: proxies, Scenarios: list})
	if err != nil {
		t.Fatal(err)
	}
	for _, failure := range (&report.File{Runs: []report.Run{*run}}).Failures() {
		t.Error(failure)
	}
	rows := map[string]report.Row{}
	for _, row := range run.Rows {
		rows[row.Scenario] = row
	}
	return rows
}

// milliseconds returns a figure of a row as a duration.
func milliseconds(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }

func mebibytes(bytes int64) int { return int(bytes >> 20) }

// basePort returns the first of so many free ports in a row.
func basePort(t *testing.T, n int) int {
	t.Helper()
	for base := 21000; base < 30000; base += n {
		if free(base, n) {
			return base
		}
	}
	t.Fatal("no free ports")
	return 0
}

func free(base, n int) bool {
	for port := base; port < base+n; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}
