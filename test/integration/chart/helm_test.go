package chart

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/program"
)

// helm runs Helm in the checkout's root and returns its output.
type helm struct {
	program, root, kubeconfig string
	// home is the directory of Helm's own files, so that the user's files are not used.
	home string
}

// newHelm completes the charts and finds Helm. kubeconfig may be empty for what needs no cluster.
func newHelm(t *testing.T, kubeconfig string) helm {
	t.Helper()
	root, err := program.Root()
	if err != nil {
		t.Fatal(err)
	}
	programs, err := cluster.FindPrograms(t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	program, err := programs.Path(t.Context(), "helm")
	if err != nil {
		t.Fatal(err)
	}
	h := helm{program: program, root: root, kubeconfig: kubeconfig, home: t.TempDir()}
	crds := exec.CommandContext(t.Context(), "hack/crds.sh", "manifests/charts/base/files/crds.yaml")
	crds.Dir = root
	if out, err := crds.CombinedOutput(); err != nil {
		t.Fatalf("hack/crds.sh: %v\n%s", err, out)
	}
	return h
}

func chart(name string) string { return filepath.Join("manifests", "charts", name) }

func (h helm) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), h.program, args...)
	c.Dir = h.root
	c.Env = append(os.Environ(), "KUBECONFIG="+h.kubeconfig,
		"HELM_CACHE_HOME="+h.home, "HELM_CONFIG_HOME="+h.home, "HELM_DATA_HOME="+h.home)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if err != nil {
		return stdout.String() + stderr.String(), err
	}
	return stdout.String(), nil
}

func (h helm) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := h.try(t, args...)
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}
