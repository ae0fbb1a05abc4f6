package screen

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Screen prints a story. Its methods may be called concurrently.
type Screen struct {
	mu    sync.Mutex
	out   io.Writer
	color bool
}

// Plainly prints without color.
func Plainly(out io.Writer) *Screen { return &Screen{out: out} }

// Terminal uses color if out is a terminal, unless told not to (https://no-color.org).
func Terminal(out *os.File, noColor bool) *Screen {
	_, err := unix.IoctlGetTermios(int(out.Fd()), unix.TCGETS)
	return &Screen{out: out, color: err == nil && !noColor}
}

// Style is how a line looks on a terminal: parameters of the control sequence SGR (ECMA-48).
type Style string

// The styles of a story.
const (
	Plain Style = ""
	Bold  Style = "1"
	Dim   Style = "2"
	Green Style = "32"
	Red   Style = "31"
)

func (s *Screen) paint(with Style, text string) string {
	if !s.color || with == Plain {
		return text
	}
	return "\x1b[" + string(with) + "m" + text + "\x1b[0m"
}

// Line prints a line.
func (s *Screen) Line(with Style, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.out, s.paint(with, fmt.Sprintf(format, args...)))
}

// Scene opens a scene.
func (s *Screen) Scene(number, of int, title string) {
	s.Line(Plain, "")
	s.Line(Bold, "%d/%d  %s", number, of, title)
}

// Say tells what happens, below a title.
func (s *Screen) Say(format string, args ...any) { s.Line(Plain, "     "+format, args...) }

// Verdict tells what was expected and seen.
func (s *Screen) Verdict(held bool, what, expected, saw string) {
	mark, with := "✓", Green
	if !held {
		mark, with = "✗", Red
	}
	s.Line(Plain, "   %s %s: %s  %s", s.paint(with, mark), what, saw, s.paint(Dim, "(expected: "+expected+")"))
}

// Quote shows lines of a rule, and says how much more of it there is: left of what is counted, "lines more".
func (s *Screen) Quote(lines []string, left int, counted string) {
	for _, line := range lines {
		s.Line(Dim, "       │ %s", line)
	}
	if left > 0 {
		s.Line(Dim, "       │ … and %d %s", left, counted)
	}
}
