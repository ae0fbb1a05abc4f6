package scorecard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// Options are how checks are run.
type Options struct {
	// Root is the root of the repository.
	Root string
	// Size is "short", "hour" or "soak".
	Size string
	// Peer is the binary of another control plane that the tests run in the place of ours; "" runs
	// ours.
	Peer string
	// Timeout bounds the tests of one package. If 0, it depends on the size.
	Timeout time.Duration
	// Logs is the directory that takes the output of each package.
	Logs string
	// Environment is that of the go command.
	Environment []string
	// Progress takes a line for each package.
	Progress io.Writer
}

// Validate reports options that cannot be run.
func (o Options) Validate() error {
	if !slices.Contains(Sizes(), o.Size) {
		return fmt.Errorf("size %q: want one of %s", o.Size, strings.Join(Sizes(), ", "))
	}
	if o.Peer != "" {
		if _, err := os.Stat(o.Peer); err != nil {
			return fmt.Errorf("peer: %w", err)
		}
	}
	return nil
}

// Sizes returns the sizes, the smallest first.
func Sizes() []string { return []string{"short", "hour", "soak"} }

// timeoutsBySize bound the tests of one package, by size.
func timeoutsBySize() map[string]string {
	return map[string]string{"short": "20m", "hour": "90m", "soak": "0"}
}

// Run runs the tests, one package after another because most of them measure time. done is called
// after each package with all outcomes so far. It returns an error if the go command cannot be run;
// a test that fails is an outcome.
func Run(ctx context.Context, o Options, tests []Test, done func(Outcomes) error) error {
	if err := os.MkdirAll(o.Logs, 0o755); err != nil {
		return err
	}
	outcomes := Outcomes{}
	for _, dir := range packagesOf(tests) {
		names := namesIn(dir, tests)
		fmt.Fprintf(o.Progress, "%s: %s\n", dir, strings.Join(names, " "))
		if err := o.runPackage(ctx, dir, names, outcomes); err != nil {
			return err
		}
		if err := done(outcomes); err != nil {
			return err
		}
	}
	return nil
}

// packagesOf returns the packages of the tests in the order in which they first occur.
func packagesOf(tests []Test) []string {
	var list []string
	for _, t := range tests {
		if !slices.Contains(list, t.Package) {
			list = append(list, t.Package)
		}
	}
	return list
}

func namesIn(dir string, tests []Test) []string {
	var list []string
	for _, t := range tests {
		if t.Package == dir && !slices.Contains(list, t.Name) {
			list = append(list, t.Name)
		}
	}
	return list
}

func (o Options) runPackage(ctx context.Context, dir string, names []string, outcomes Outcomes) error {
	suffix := ""
	if o.Peer != "" {
		suffix = ".peer"
	}
	log, err := os.Create(filepath.Join(o.Logs, strings.ReplaceAll(dir, "/", "_")+suffix+".json"))
	if err != nil {
		return err
	}
	defer log.Close()
	timeout := timeoutsBySize()[o.Size]
	if o.Timeout > 0 {
		timeout = o.Timeout.String()
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-timeout", timeout,
		"-run", "^("+strings.Join(names, "|")+")$", "./"+dir)
	cmd.Dir = o.Root
	cmd.Env = append(slices.Clone(o.Environment), longtest.Variable+"=true", scorecard.SizeVariable+"="+o.Size,
		scorecard.PeerVariable+"="+o.Peer)
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for _, name := range names { // a package that does not build has outcomes too: tests that did not end
		outcomes.outcomeOf(dir, name)
	}
	readErr := outcomes.Read(dir, io.TeeReader(out, log), func(string) { /* it is in the log */ })
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return readErr
}
