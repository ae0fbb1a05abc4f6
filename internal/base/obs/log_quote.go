package obs

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/meshpilot/meshpilot/internal/base/truncate"
)

// maxLogText bounds the size in bytes of a message or value before it is quoted. Stacks of panics
// fit.
const maxLogText = 16 << 10

// isPrintable reports whether s is valid UTF-8 of printable characters only: no control characters,
// line or paragraph separators, or direction marks. Others can imitate several lines, or change a
// terminal's display.
func isPrintable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// quoteMessage returns a message for the log: truncated to maxLogText, and quoted if it is not
// printable.
func quoteMessage(s string) string {
	s = truncate.Text(s, maxLogText)
	if isPrintable(s) {
		return s
	}
	return strconv.Quote(s)
}

// quoteValue returns a key or value for the log: truncated to maxLogText, and quoted if it is
// empty, not printable or ambiguous. Ambiguous are spaces, quotes and equals signs.
func quoteValue(s string) string {
	s = truncate.Text(s, maxLogText)
	if s != "" && isPrintable(s) && !strings.ContainsAny(s, " \"=") {
		return s
	}
	return strconv.Quote(s)
}
