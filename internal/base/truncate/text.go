package truncate

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// MinLimit is the smallest useful limit: the mark alone has up to 40 bytes.
const MinLimit = 64

// Text returns s if it has at most limit bytes. Otherwise it returns a copy of the beginning of s
// and the mark "… [N bytes cut]", together at most limit bytes. A limit below MinLimit is raised to
// MinLimit.
func Text(s string, limit int) string {
	limit = max(limit, MinLimit)
	if len(s) <= limit {
		return s
	}
	// The number of digits in the mark depends on the cut; its upper bound does not.
	room := limit - len(cutMark(len(s)))
	for room > 0 && !utf8.RuneStart(s[room]) {
		room--
	}
	var b strings.Builder
	b.Grow(limit)
	b.WriteString(s[:room])
	b.WriteString(cutMark(len(s) - room))
	return b.String()
}

// cutMark returns the mark for a number of missing bytes.
func cutMark(cut int) string { return "… [" + strconv.Itoa(cut) + " bytes cut]" }
