package story

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/test/support/program"
)

// section is a part of a document, below a heading of the second level, with its commands.
type section struct{ title, commands string }

// parseSections returns the sections of a Markdown document that have commands: the code blocks
// that are indented by four spaces.
func parseSections(document string) []section {
	var list []section
	for _, part := range strings.Split("\n"+document, "\n## ")[1:] {
		title, rest, _ := strings.Cut(part, "\n")
		var commands strings.Builder
		for line := range strings.Lines(rest) {
			if code, indented := strings.CutPrefix(line, "    "); indented {
				commands.WriteString(code)
			}
		}
		if commands.Len() > 0 {
			list = append(list, section{title, commands.String()})
		}
	}
	return list
}

// shell runs commands as a user would: with bash, in a folder with the charts, with kubectl, helm
// and pilotctl.
type shell struct {
	dir string
	env []string
}

// scriptTimeout is the timeout of the commands of one section.
const scriptTimeout = 10 * time.Minute

// newShell returns a shell whose folder is temporary. links are names in it, with what they link to.
func (s *Stage) newShell(ctx context.Context, links map[string]string) (*shell, error) {
	dir, err := os.MkdirTemp("", "upgrade")
	if err != nil {
		return nil, err
	}
	sh := &shell{dir: dir, env: append(os.Environ(), "KUBECONFIG="+s.cluster.Kubeconfig(), "HOME="+dir,
		"HELM_CACHE_HOME="+dir, "HELM_CONFIG_HOME="+dir, "HELM_DATA_HOME="+dir)}
	helm, err := s.cluster.Programs().Path(ctx, "helm")
	if err != nil {
		return sh, err
	}
	kubectl, err := s.cluster.Programs().Kubectl(ctx)
	if err != nil {
		return sh, err
	}
	pilotctl, err := program.Build(ctx, "cmd/pilotctl")
	if err != nil {
		return sh, err
	}
	all := map[string]string{"bin/helm": helm, "bin/kubectl": kubectl, "bin/pilotctl": pilotctl, "manifests": filepath.Join(s.root, "manifests")}
	for name, target := range links {
		all[name] = target
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o750); err != nil {
		return sh, err
	}
	for name, target := range all {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			return sh, err
		}
	}
	return sh, nil
}

// run runs commands until one fails. The error contains their output.
func (sh *shell) run(ctx context.Context, commands string) error {
	ctx, cancel := context.WithTimeout(ctx, scriptTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", `PATH="$PWD/bin:$PATH"; set -x`+"\n"+commands)
	cmd.Dir, cmd.Env, cmd.WaitDelay = sh.dir, sh.env, time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// close removes the folder.
func (sh *shell) close() { _ = os.RemoveAll(sh.dir) }
