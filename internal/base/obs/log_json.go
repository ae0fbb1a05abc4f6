package obs

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/meshpilot/meshpilot/internal/base/truncate"
)

// newJSONHandler returns a handler that writes one JSON object per line, with Istio's field names.
// Lines contain only printable characters, and no message or value is longer than maxLogText.
func newJSONHandler(out io.Writer) slog.Handler {
	return slog.NewJSONHandler(escaper{out}, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: replaceJSON})
}

// replaceJSON returns a with the level in lower case, the time in UTC (timeLayout) and long texts
// truncated. In groups it only truncates.
func replaceJSON(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 {
		switch a.Key {
		case slog.LevelKey:
			return slog.String("level", strings.ToLower(a.Value.String()))
		case slog.TimeKey:
			if a.Value.Kind() == slog.KindTime {
				return slog.String("time", a.Value.Time().UTC().Format(timeLayout))
			}
		}
	}
	a.Value = truncateJSON(a.Value)
	return a
}

// truncateJSON returns v unless it is a string, or the JSON of an arbitrary value (KindAny), of
// more than maxLogText bytes. Then it returns a string with the beginning of the text. An error
// always becomes its text, and a value without a JSON encoding its text by %+v.
func truncateJSON(v slog.Value) slog.Value {
	switch v.Kind() {
	case slog.KindString:
		if s := v.String(); len(s) > maxLogText {
			return slog.StringValue(truncate.Text(s, maxLogText))
		}
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			return slog.StringValue(truncate.Text(err.Error(), maxLogText))
		}
		text, err := json.Marshal(v.Any())
		if err != nil {
			text = fmt.Appendf(nil, "%+v", v.Any())
		}
		if err != nil || len(text) > maxLogText {
			return slog.StringValue(truncate.Text(string(text), maxLogText))
		}
	}
	return v
}

// escaper replaces non-printable characters in JSON by escapes. slog writes whole lines, in which
// such characters occur only inside of strings, apart from the line feed at the end.
type escaper struct{ out io.Writer }

// Write writes one line, in which characters that are not printable are escaped. A final newline
// stays, and is added if it is missing and a character is escaped. On success it returns the length
// of line.
func (e escaper) Write(line []byte) (int, error) {
	body := line
	if n := len(body); n > 0 && body[n-1] == '\n' {
		body = body[:n-1]
	}
	if isPrintable(string(body)) {
		return e.out.Write(line)
	}
	out := make([]byte, 0, len(line)+64)
	for len(body) > 0 {
		r, n := utf8.DecodeRune(body)
		switch {
		case unicode.IsPrint(r) && (r != utf8.RuneError || n > 1):
			out = append(out, body[:n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		body = body[n:]
	}
	if _, err := e.out.Write(append(out, '\n')); err != nil {
		return 0, err
	}
	return len(line), nil
}
