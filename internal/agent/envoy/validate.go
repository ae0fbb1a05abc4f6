package envoy

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"time"
)

// validateTimeout bounds a look at a configuration. It takes some tens of milliseconds.
const validateTimeout = 30 * time.Second

// Validate has Envoy read what it would start with, without starting. The error says in Envoy's words what is wrong with it.
func Validate(ctx context.Context, c Command) error {
	ctx, cancel := context.WithTimeout(ctx, validateTimeout)
	defer cancel()
	// What replaces Envoys has no place here: it would meet those that run.
	args := slices.Concat(without(c.Args, "--restart-epoch", "--base-id", "--base-id-path", "--parent-shutdown-time-s"),
		[]string{"--disable-hot-restart", "--mode", "validate"})
	args = slices.DeleteFunc(args, func(arg string) bool { return arg == "--use-dynamic-base-id" })
	command := exec.CommandContext(ctx, c.Path, args...)
	command.Env, command.Dir = c.Env, c.Dir
	out, err := command.CombinedOutput()
	if err == nil {
		return nil
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	return fmt.Errorf("envoy does not take its configuration: %w: %.1000s", err, lines[len(lines)-1])
}

// without leaves out flags and the values after them.
func without(args []string, flags ...string) []string {
	var rest []string
	for i := 0; i < len(args); i++ {
		if slices.Contains(flags, args[i]) {
			i++
			continue
		}
		rest = append(rest, args[i])
	}
	return rest
}
