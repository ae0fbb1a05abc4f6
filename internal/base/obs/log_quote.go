package obs

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/meshpilot/meshpilot/internal/base/truncate"
)

// maxLogText bounds, in bytes, a message or a value of one log line before it is quoted. Stacks of panics fit.
const maxLogText = 16 << 10

// printable reports whether s has only printable characters: no control characters, line or paragraph separators, direction
// marks, or bytes that are not UTF-8. A line with others may look like several lines, or change what a terminal shows.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// quoteMessage returns a message as it is written: quoted if it is not printable, and truncated to maxLogText.
func quoteMessage(s string) string {
	s = truncate.Text(s, maxLogText)
	if printable(s) {
		return s
	}
	return strconv.Quote(s)
}

// quoteValue returns a key or value as it is written: quoted if it is empty, not printable or could be taken for two, and
// truncated to maxLogText.
func quoteValue(s string) string {
	s = truncate.Text(s, maxLogText)
	if s != "" && printable(s) && !strings.ContainsAny(s, " \"=") {
		return s
	}
	return strconv.Quote(s)
}
