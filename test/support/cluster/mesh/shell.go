package mesh

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/program"
)

// Shell runs commands as a user would: with bash, in a folder with the charts, with kubectl, helm
// and pilotctl.
type Shell struct {
	dir string
	env []string
}

// scriptTimeout is the timeout of the commands of one section.
const scriptTimeout = 10 * time.Minute

// NewShell returns a shell for a kubeconfig, whose folder is temporary. links are names in it, with
// what they link to. It writes the custom resource definitions of the checkout's charts. Close
// removes the folder.
func NewShell(
	ctx context.Context,
	programs *cluster.Programs,
	kubeconfig string,
	links map[string]string,
) (*Shell, error) {
	root, err := program.Root()
	if err != nil {
		return nil, err
	}
	helm, err := programs.Path(ctx, "helm")
	if err != nil {
		return nil, err
	}
	kubectl, err := programs.Kubectl(ctx)
	if err != nil {
		return nil, err
	}
	pilotctl, err := program.Build(ctx, "cmd/pilotctl")
	if err != nil {
		return nil, err
	}
	if err := WriteCRDs(ctx, filepath.Join(root, "manifests", "charts")); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "shell")
	if err != nil {
		return nil, err
	}
	sh := &Shell{dir: dir, env: append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+dir,
		"HELM_CACHE_HOME="+dir, "HELM_CONFIG_HOME="+dir, "HELM_DATA_HOME="+dir)}
	all := map[string]string{
		"bin/helm":     helm,
		"bin/kubectl":  kubectl,
		"bin/pilotctl": pilotctl,
		"manifests":    filepath.Join(root, "manifests"),
	}
	maps.Copy(all, links)
	err = os.Mkdir(filepath.Join(dir, "bin"), 0o750)
	for name, target := range all {
		if err == nil {
			err = os.Symlink(target, filepath.Join(dir, name))
		}
	}
	if err != nil {
		sh.Close()
		return nil, err
	}
	return sh, nil
}

// Run runs commands until one fails. The error contains their output.
func (sh *Shell) Run(ctx context.Context, commands string) error {
	ctx, cancel := context.WithTimeout(ctx, scriptTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", `PATH="$PWD/bin:$PATH"; set -x`+"\n"+commands)
	cmd.Dir, cmd.Env, cmd.WaitDelay = sh.dir, sh.env, time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// Close removes the folder.
func (sh *Shell) Close() { _ = os.RemoveAll(sh.dir) }
