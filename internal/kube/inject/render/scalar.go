package render

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"
)

// checkScalar returns the text to print for a value of the pod at the current position: escaped
// inside quotes, and unchanged elsewhere. It returns an error if the value would not stay within
// its scalar. Line breaks and control characters are refused outside of double quotes. In or before
// a plain scalar, YAML syntax is refused, and after a dash or colon a leading space.
func (w *writer) checkScalar(v any) (any, error) {
	s := printedText(v)
	at := w.position.nextContext()
	if at == double {
		return escapeDoubleQuoted(s), nil
	}
	if strings.ContainsFunc(s, breaksLine) {
		return nil, w.misplacedError(s, "it has a line break or another control character")
	}
	if at == single {
		return strings.ReplaceAll(s, "'", "''"), nil
	}
	if (w.position.dash || w.position.prev == ':') &&
		// a leading space would make the preceding character syntax
		strings.TrimLeft(s, " \t") != s {
		return nil, w.misplacedError(s, "it begins with a space")
	}
	flow := w.position.flow > 0
	switch at {
	case lineStart, valueStart:
		if !canBeginPlain(s, flow) {
			return nil, w.misplacedError(s, "it would be parsed as YAML syntax")
		}
	case plain, closed:
		if !canContinuePlain(s, flow) {
			return nil, w.misplacedError(s, "it would be parsed as YAML syntax")
		}
	}
	return s, nil
}

// checkQuoted returns the text to print for a value that is already quoted. At the beginning of a
// scalar the quotes are YAML's and are kept; elsewhere they are part of the value, which goes
// through checkScalar.
func (w *writer) checkQuoted(v any) (any, error) {
	s := printedText(v)
	if at := w.position.nextContext(); (at == lineStart || at == valueStart) && isQuotedScalar(s) &&
		!strings.ContainsFunc(s, breaksLine) {
		return s, nil
	}
	return w.checkScalar(s)
}

// escapeWhole returns the text to print for a value that is already YAML or JSON: escaped inside
// quotes, and unchanged elsewhere. It refuses nothing.
func (w *writer) escapeWhole(v any) (any, error) {
	s := printedText(v)
	switch w.position.nextContext() {
	case double:
		return escapeDoubleQuoted(s), nil
	case single:
		return strings.ReplaceAll(s, "'", "''"), nil
	}
	return s, nil
}

// misplacedError returns the error for a value that is invalid at the current position. It quotes
// at most 100 bytes.
func (w *writer) misplacedError(value, reason string) error {
	const limit = 100
	if len(value) > limit {
		value = value[:limit] + "…"
	}
	line := 1 + strings.Count(string(w.out), "\n")
	return fmt.Errorf("value %q is invalid in line %d of the output: %s", value, line, reason)
}

// printedText returns the text that a template prints for a value. nil is "<no value>". A pointer
// is followed, unless it is nil, an error or a Stringer.
func printedText(v any) string {
	switch v := v.(type) {
	case nil:
		return "<no value>"
	case string:
		return v
	case error, fmt.Stringer:
		return fmt.Sprint(v)
	}
	if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && !r.IsNil() {
		return printedText(r.Elem().Interface())
	}
	return fmt.Sprint(v)
}

// escapeDoubleQuoted escapes a value for double quotes: quotes, backslashes and characters that
// break lines or are control characters (breaksLine). The result has no quotes around it.
func escapeDoubleQuoted(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case breaksLine(r) && r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// breaksLine reports whether YAML treats the rune as a line break or rejects it: control characters
// other than tab, line and paragraph separators, and U+FEFF, U+FFFE and U+FFFF.
func breaksLine(r rune) bool {
	return r != '\t' && unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r == '\ufffe' ||
		r == '\uffff'
}

// isQuotedScalar reports whether the text is one quoted scalar, single or double, and nothing else.
func isQuotedScalar(s string) bool {
	if len(s) < 2 {
		return false
	}
	inside := s[1 : len(s)-1]
	switch {
	case s[0] == '"' && s[len(s)-1] == '"':
		_, err := strconv.Unquote(s)
		return err == nil
	case s[0] == '\'' && s[len(s)-1] == '\'':
		return !strings.Contains(strings.ReplaceAll(inside, "''", ""), "'")
	}
	return false
}

// canBeginPlain reports whether a plain scalar may begin with s; flow is set in a flow
// collection. Leading blanks are ignored; an empty s is accepted. It returns false if s begins
// with an indicator, which "-", "?" and ":" are only before a blank or as all of s. It also
// returns false if s contains text that a plain scalar cannot contain (canContinuePlain).
func canBeginPlain(s string, flow bool) bool {
	s = strings.TrimLeft(s, " \t")
	if s == "" {
		return true
	}
	if strings.ContainsRune("[]{},#&*!|>'\"%@`", rune(s[0])) {
		return false
	}
	if strings.ContainsRune("-?:", rune(s[0])) && (len(s) == 1 || s[1] == ' ' || s[1] == '\t') {
		return false
	}
	return canContinuePlain(s, flow)
}

// canContinuePlain reports whether s may be inside a plain scalar, after its beginning; flow is set
// in a flow collection. It returns false for text that may begin a comment or end the scalar.
func canContinuePlain(s string, flow bool) bool {
	if strings.HasPrefix(s, "#") || strings.HasSuffix(s, ":") || flow && strings.ContainsAny(s, "[]{},") {
		return false
	}
	for _, x := range []string{": ", ":\t", " #", "\t#"} {
		if strings.Contains(s, x) {
			return false
		}
	}
	return true
}
