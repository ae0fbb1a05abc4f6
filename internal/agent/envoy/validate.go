package envoy

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// validateTimeout bounds the validation of a configuration, which takes tens of milliseconds.
const validateTimeout = 30 * time.Second

// Validate runs Envoy in validate mode with the command's arguments, except the hot restart
// arguments, for at most validateTimeout. It returns nil if Envoy accepts its configuration.
// Otherwise, also if Envoy cannot be run or takes too long, it returns an error with the last line
// of the output.
func Validate(ctx context.Context, c Command) error {
	ctx, cancel := context.WithTimeout(ctx, validateTimeout)
	defer cancel()
	// Hot restart would connect to running Envoys.
	args := slices.Concat(
		removeFlags(c.Args, "--restart-epoch", "--base-id", "--base-id-path", "--parent-shutdown-time-s"),
		[]string{"--disable-hot-restart", "--mode", "validate"})
	args = slices.DeleteFunc(args, func(arg string) bool { return arg == "--use-dynamic-base-id" })
	command := exec.CommandContext(ctx, c.Path, args...)
	command.Env, command.Dir = c.Env, c.Dir
	command.SysProcAttr = &syscall.SysProcAttr{Credential: c.User.credential()}
	out, err := command.CombinedOutput()
	if err == nil {
		return nil
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	return fmt.Errorf("envoy rejects its configuration: %w: %.1000s", err, lines[len(lines)-1])
}

// removeFlags returns args without the given flags and the argument after each. It does not
// recognize FLAG=VALUE in one argument.
func removeFlags(args []string, flags ...string) []string {
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
