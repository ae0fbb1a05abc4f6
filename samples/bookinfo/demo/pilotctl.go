package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/samples/bookinfo"
)

const (
	// shownLines and shownWidth limit what is shown of the output of pilotctl.
	shownLines = 14
	shownWidth = 120
)

// reply is what pilotctl printed, and its exit code.
type reply struct {
	text string
	code int
}

// ask runs pilotctl beside the control plane, and shows the command and the beginning of its output.
// Paths of the sample in args are those below the root of the source code.
func (s *stage) ask(ctx context.Context, args ...string) (reply, error) {
	s.screen.Say("pilotctl %s", shellWords(args))
	out, err := os.CreateTemp(s.dir, "pilotctl-*")
	if err != nil {
		return reply{}, fmt.Errorf("running pilotctl: %w", err)
	}
	defer os.Remove(out.Name())
	defer out.Close()
	p, err := s.mesh.ControlPlane.Node.Start(netns.Command{
		Path: filepath.Join(s.binaries, "pilotctl"), Args: append(args, "--server", "127.0.0.1:8080"),
		Dir: s.dir, Stdout: out, Stderr: out,
	})
	if err != nil {
		return reply{}, err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		return reply{}, p.Stop(0)
	}
	text, err := os.ReadFile(out.Name())
	lines, left := firstLines(string(text))
	s.screen.Quote(lines, left, "lines more")
	return reply{string(text), p.Status()}, err
}

// place writes a rule of the sample into the directory in which ask runs pilotctl, and returns its path
// there.
func (s *stage) place(name string) (string, error) {
	text, err := bookinfo.Networking(name)
	if err != nil {
		return "", err
	}
	path := filepath.Join("samples", "bookinfo", bookinfo.RulePath(name))
	if err := os.MkdirAll(filepath.Join(s.dir, filepath.Dir(path)), 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(filepath.Join(s.dir, path), []byte(text), 0o644)
}

// firstLines returns the first lines of a text without empty ones, each cut to shownWidth, and the number
// of the others.
func firstLines(text string) (shown []string, left int) {
	for line := range strings.Lines(text) {
		r := []rune(strings.TrimRight(line, "\n"))
		switch {
		case len(r) == 0:
		case len(shown) == shownLines:
			left++
		case len(r) > shownWidth:
			shown = append(shown, string(r[:shownWidth-1])+"…")
		default:
			shown = append(shown, string(r))
		}
	}
	return shown, left
}

// shellWords returns arguments as they are typed in a shell.
func shellWords(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		if words[i] = a; strings.ContainsAny(a, " |") {
			words[i] = "'" + a + "'"
		}
	}
	return strings.Join(words, " ")
}
