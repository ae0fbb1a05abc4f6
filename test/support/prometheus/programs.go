package prometheus

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/program"
)

// Require skips a test unless MESHPILOT_OBSERVABILITY=true, which `make observability` sets.
func Require(t testing.TB) {
	t.Helper()
	if os.Getenv("MESHPILOT_OBSERVABILITY") != "true" {
		t.Skip("it needs a real Prometheus, which takes minutes to build: `make observability` runs it")
	}
}

// Promtool runs promtool with arguments in a directory and returns what it prints.
func Promtool(t testing.TB, dir string, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), Binary(t, "promtool"), args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	return string(out), err
}

// Binary returns the path of one of Prometheus' programs, prometheus or promtool. It builds it into the
// user's cache if it is missing, for which it needs the network.
func Binary(t testing.TB, name string) string {
	t.Helper()
	m, err := module("prometheus")
	if err != nil {
		t.Fatal(err)
	}
	path, err := m.Build(t.Context(), name, "github.com/prometheus/prometheus/cmd/"+name, "-s -w", func() {
		t.Logf("building %s: once, several minutes", name)
	})
	if err != nil {
		t.Fatalf("build %s: %v", name, err)
	}
	return path
}

// module returns a module of the folder programs.
func module(name string) (program.Module, error) {
	root, err := program.Root()
	return program.Module{Dir: filepath.Join(root, "test", "support", "prometheus", "programs", name), Name: name}, err
}

// OperatorKinds returns the files that define the Prometheus operator's kinds which the charts use:
// PrometheusRule, ServiceMonitor and PodMonitor.
func OperatorKinds(ctx context.Context) ([]string, error) {
	m, err := module("operator")
	if err != nil {
		return nil, err
	}
	dir, err := m.SourceOf(ctx, "github.com/prometheus-operator/prometheus-operator")
	if err != nil {
		return nil, err
	}
	var files []string
	for _, kind := range []string{"prometheusrules", "servicemonitors", "podmonitors"} {
		name := fmt.Sprintf("monitoring.coreos.com_%s.yaml", kind)
		files = append(files, filepath.Join(dir, "example", "prometheus-operator-crd", name))
	}
	return files, nil
}
