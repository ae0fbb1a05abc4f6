package iptables

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// systemTools runs programs of the machine. They inherit the network namespace of the calling thread.
type systemTools struct{}

var _ Tools = systemTools{}

// Find looks into the directories of administrators too. PATH often lacks them for a user who is root only in a user
// namespace.
func (systemTools) Find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("finding %s: %w", name, exec.ErrNotFound)
}

func (systemTools) Run(ctx context.Context, call Call) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, call.Path, call.Args...)
	cmd.Env = append(os.Environ(), call.Env...)
	cmd.Stdin = strings.NewReader(call.Stdin)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil {
		return stdout.String(), nil
	}
	said := strings.ReplaceAll(strings.TrimSpace(stderr.String()), "\n", "; ") // an error is one line
	if isPermission(said) {
		err = fmt.Errorf("%w: %w", ErrNotPermitted, err)
	}
	return "", fmt.Errorf("running %s: %w: %s", strings.Join(append([]string{filepath.Base(call.Path)}, call.Args...), " "), err, said)
}

// isPermission reads the words of the iptables programs, whose exit status for a lack of privilege is that of many
// other things.
func isPermission(stderr string) bool {
	return strings.Contains(stderr, "Permission denied") || strings.Contains(stderr, "you must be root") || strings.Contains(stderr, "Operation not permitted")
}
