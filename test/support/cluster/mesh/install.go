package mesh

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/program"
)

// Chart is a release of one of the charts in manifests/charts.
type Chart struct {
	Release, Chart, Namespace string
	// Set are values, as NAME=VALUE.
	Set []string
}

// Charts are the charts of a mesh with an ingress gateway, as in the documentation. set are values
// of the control plane.
func Charts(set ...string) []Chart {
	return []Chart{
		{Release: "istio-base", Chart: "base", Namespace: "istio-system"},
		{Release: "istiod", Chart: "istiod", Namespace: "istio-system", Set: set},
		{Release: "istio-ingressgateway", Chart: "gateway", Namespace: "istio-system"},
	}
}

// InstallCharts installs charts with Helm on the cluster of a kubeconfig, or upgrades them, and
// waits until the workloads of each are ready. The cluster must not have Istio's kinds yet: those
// are in the base chart's.
func InstallCharts(ctx context.Context, programs *cluster.Programs, kubeconfig string, charts ...Chart) error {
	h, err := newHelm(ctx, programs, kubeconfig)
	if err != nil {
		return err
	}
	for _, chart := range charts {
		args := []string{"upgrade", "--install", chart.Release, filepath.Join("manifests", "charts", chart.Chart),
			"--namespace", chart.Namespace, "--create-namespace", "--wait", "--timeout", "2m"}
		for _, set := range chart.Set {
			args = append(args, "--set", set)
		}
		if err := h.runHelm(ctx, args...); err != nil {
			return fmt.Errorf("install %s: %w", chart.Release, err)
		}
	}
	return nil
}

// helm runs Helm in the checkout's root.
type helm struct {
	program, root string
	env           []string
}

func newHelm(ctx context.Context, programs *cluster.Programs, kubeconfig string) (*helm, error) {
	root, err := program.Root()
	if err != nil {
		return nil, err
	}
	program, err := programs.Path(ctx, "helm")
	if err != nil {
		return nil, err
	}
	// Helm's files are kept with the cluster, so that the user's files do not change.
	home := filepath.Join(filepath.Dir(kubeconfig), "helm")
	h := &helm{program: program, root: root, env: append(os.Environ(), "KUBECONFIG="+kubeconfig,
		"HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)}
	return h, WriteCRDs(ctx, filepath.Join(root, "manifests", "charts"))
}

// WriteCRDs adds the custom resource definitions to the chart base in a folder of charts, as `make
// charts` does.
func WriteCRDs(ctx context.Context, charts string) error {
	root, err := program.Root()
	if err != nil {
		return err
	}
	h := &helm{root: root, env: os.Environ()}
	return h.runCommand(ctx, filepath.Join("hack", "crds.sh"), filepath.Join(charts, "base", "files", "crds.yaml"))
}

func (h *helm) runHelm(ctx context.Context, args ...string) error {
	return h.runCommand(ctx, h.program, args...)
}

func (h *helm) runCommand(ctx context.Context, program string, args ...string) error {
	if !filepath.IsAbs(program) {
		program = filepath.Join(h.root, program)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = h.root, h.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(program), err, bytes.TrimSpace(out))
	}
	return nil
}
