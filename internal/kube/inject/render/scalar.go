package render

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"
)

// scalar gives what is printed for a value of the pod's at the place where the template is: the value, escaped inside of
// quotes. It is an error if the value would not stay inside of its scalar there.
func (w *writer) scalar(v any) (any, error) {
	s := printed(v)
	at := w.at.settled()
	if at == double {
		return escape(s), nil
	}
	if strings.ContainsFunc(s, breaksLine) {
		return nil, w.misfit(s, "it has a line break or another control character")
	}
	if at == single {
		return strings.ReplaceAll(s, "'", "''"), nil
	}
	if (w.at.dash || w.at.prev == ':') && strings.TrimLeft(s, " \t") != s { // the space would make syntax of what is before it
		return nil, w.misfit(s, "it begins with a space")
	}
	flow := w.at.flow > 0
	switch at {
	case lineStart, valueStart:
		if !plainFrom(s, flow) {
			return nil, w.misfit(s, "it would be taken for YAML")
		}
	case plain, closed:
		if !plainWithin(s, flow) {
			return nil, w.misfit(s, "it would be taken for YAML")
		}
	}
	return s, nil
}

// quoted is scalar for a value that has quotes around it. Where a scalar may begin they are those of YAML; elsewhere they are
// part of it.
func (w *writer) quoted(v any) (any, error) {
	s := printed(v)
	if at := w.at.settled(); (at == lineStart || at == valueStart) && complete(s) && !strings.ContainsFunc(s, breaksLine) {
		return s, nil
	}
	return w.scalar(s)
}

// whole is scalar for what is already YAML or JSON.
func (w *writer) whole(v any) (any, error) {
	s := printed(v)
	switch w.at.settled() {
	case double:
		return escape(s), nil
	case single:
		return strings.ReplaceAll(s, "'", "''"), nil
	}
	return s, nil
}

func (w *writer) misfit(value, reason string) error {
	const limit = 100
	if len(value) > limit {
		value = value[:limit] + "…"
	}
	line := 1 + strings.Count(string(w.out), "\n")
	return fmt.Errorf("the value %q cannot stand in line %d of the output: %s", value, line, reason)
}

// printed is the text that a template prints for a value.
func printed(v any) string {
	switch v := v.(type) {
	case nil:
		return "<no value>"
	case string:
		return v
	case error, fmt.Stringer:
		return fmt.Sprint(v)
	}
	if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && !r.IsNil() {
		return printed(r.Elem().Interface())
	}
	return fmt.Sprint(v)
}

// escape writes a value for double quotes.
func escape(s string) string {
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

// breaksLine says whether a rune is one that YAML takes for a line break, or does not take at all.
func breaksLine(r rune) bool {
	return r != '\t' && unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r == '\ufffe' || r == '\uffff'
}

// complete says whether a text is one scalar in quotes.
func complete(s string) bool {
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

// plainFrom says whether a scalar without quotes may begin with a value, inside of a flow collection or not.
func plainFrom(s string, flow bool) bool {
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
	return plainWithin(s, flow)
}

// plainWithin says whether a value may stand inside of a scalar without quotes.
func plainWithin(s string, flow bool) bool {
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
