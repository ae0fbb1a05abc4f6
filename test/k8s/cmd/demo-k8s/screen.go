package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/meshpilot/meshpilot/test/k8s/story"
)

// screen tells the story on a terminal, or to a file.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	color bool
}

var _ story.Audience = (*screen)(nil)

// newScreen uses color on a terminal.
func newScreen(out *os.File) *screen {
	_, err := unix.IoctlGetTermios(int(out.Fd()), unix.TCGETS)
	return &screen{out: out, color: err == nil}
}

type style string

const (
	plain style = ""
	bold  style = "1"
	dim   style = "2"
	green style = "32"
	red   style = "31"
)

func (s *screen) paint(with style, text string) string {
	if !s.color || with == plain {
		return text
	}
	return "\x1b[" + string(with) + "m" + text + "\x1b[0m"
}

func (s *screen) line(with style, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.out, s.paint(with, fmt.Sprintf(format, args...)))
}

// Scene opens a scene.
func (s *screen) Scene(number, of int, title string) { s.line(bold, "\n%d/%d  %s", number, of, title) }

// Say tells what happens, below a title.
func (s *screen) Say(format string, args ...any) { s.line(plain, "     "+format, args...) }

// mostLines bounds what is shown of a rule.
const mostLines = 24

// Show shows a rule.
func (s *screen) Show(yaml string) {
	lines := strings.Split(strings.Trim(yaml, "\n"), "\n")
	for _, line := range lines[:min(len(lines), mostLines)] {
		s.line(dim, "       │ %s", line)
	}
	if left := len(lines) - mostLines; left > 0 {
		s.line(dim, "       │ … and %d lines more", left)
	}
}

// Verdict tells what was expected and seen.
func (s *screen) Verdict(held bool, what, expected, saw string) {
	mark, with := "✓", green
	if !held {
		mark, with = "✗", red
	}
	s.line(plain, "   %s %s: %s  %s", s.paint(with, mark), what, saw, s.paint(dim, "(expected: "+expected+")"))
}
