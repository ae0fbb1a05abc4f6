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

// systemTools runs programs of the host. They inherit the network namespace of the calling thread.
type systemTools struct{}

var _ Tools = systemTools{}

// Find returns the path of a program in PATH or in the directories of administrators, which PATH
// often lacks for root in a user namespace. It returns an error if there is none.
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
	return "", fmt.Errorf("find %s: %w", name, exec.ErrNotFound)
}

// Run runs the program with call.Env added to the environment and returns its standard output. An
// error has the standard error, and wraps ErrNotPermitted if that indicates missing privileges.
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
	output := strings.ReplaceAll(strings.TrimSpace(stderr.String()), "\n", "; ") // errors are one line
	if isPermission(output) {
		err = fmt.Errorf("%w: %w", ErrNotPermitted, err)
	}
	command := strings.Join(append([]string{filepath.Base(call.Path)}, call.Args...), " ")
	return "", fmt.Errorf("run %s: %w: %s", command, err, output)
}

// isPermission reports whether the output of an iptables program indicates missing privileges. The
// exit status does not distinguish them from other errors.
func isPermission(stderr string) bool {
	return strings.Contains(stderr, "Permission denied") || strings.Contains(stderr, "you must be root") ||
		strings.Contains(stderr, "Operation not permitted")
}
