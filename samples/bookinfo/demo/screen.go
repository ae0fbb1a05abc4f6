package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// screen prints the story. Its methods may be called concurrently.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	color bool
}

// newScreen uses color on a terminal, unless told not to (https://no-color.org).
func newScreen(out *os.File, noColor bool) *screen {
	_, err := unix.IoctlGetTermios(int(out.Fd()), unix.TCGETS)
	return &screen{out: out, color: err == nil && !noColor}
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

// title opens a scene.
func (s *screen) title(number, of int, title string) {
	s.line(plain, "")
	s.line(bold, "%d/%d  %s", number, of, title)
}

// say tells what happens, below a title.
func (s *screen) say(format string, args ...any) { s.line(plain, "     "+format, args...) }

// verdict tells what was expected and seen.
func (s *screen) verdict(ok bool, what, expected, saw string) {
	mark, with := "✓", green
	if !ok {
		mark, with = "✗", red
	}
	s.line(plain, "   %s %s: %s  %s", s.paint(with, mark), what, saw, s.paint(dim, "(expected: "+expected+")"))
}

// yaml shows a rule, and of many in one file the first of each kind.
func (s *screen) yaml(text string) {
	shown, left := excerpt(text)
	for _, line := range shown {
		s.line(dim, "       │ %s", line)
	}
	if left > 0 {
		s.line(dim, "       │ … and %d more like it", left)
	}
}

// excerpt returns the first document of each kind in a YAML text, without comments and what every document begins with,
// and how many documents were left out.
func excerpt(text string) (shown []string, left int) {
	kinds := map[string]bool{}
	for i, doc := range strings.Split(text, "\n---\n") {
		var lines []string
		kind := ""
		if i > 0 {
			lines = append(lines, "---")
		}
		for line := range strings.Lines(doc) {
			if strings.HasPrefix(line, "kind:") {
				kind = strings.TrimSpace(line)
			}
			if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "apiVersion:") {
				lines = append(lines, strings.TrimRight(line, "\n"))
			}
		}
		if kinds[kind] {
			left++
			continue
		}
		kinds[kind] = true
		shown = append(shown, lines...)
	}
	return shown, left
}
