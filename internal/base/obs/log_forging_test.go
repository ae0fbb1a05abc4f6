package obs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// longestText is the maximum length of a message or value of the log (docs/SECURITY.md).
const longestText = 16 << 10

// forged returns texts that try to forge a log line, control a terminal, or imitate other
// values.
func forged() map[string]string {
	const line = "2026-11-22T02:00:00.000000Z\tinfo\tca\tcertificate signed\tid=spiffe://x"
	return map[string]string{
		"line feed": "web\n" + line, "carriage return": "web\r" + line, "vertical tab": "web\v" + line, "form feed": "web\f" + line,
		"next line": "web\u0085" + line, "line separator": "web\u2028" + line, "paragraph separator": "web\u2029" + line,
		"ANSI escape": "web\x1b[2K\x1b[1A" + line, "control sequence introducer": "web\u009b2K" + line, "backspace": "web\b\b\b" + line,
		"NUL": "web\x00" + line, "DEL": "web\x7f", "right-to-left override": "web\u202e" + line, "zero width space": "web\u200b",
		"byte order mark": "\ufeffweb", "language tag": "web\U000e0041", "no UTF-8": "web\xff\xfe\n" + line, "replacement": "web\ufffd",
		"tab": "web\tscope=ca", "quote": `web" scope="ca`, "equals": "web scope=ca", "backslash": `web\n`, "empty": "",
		"long": strings.Repeat("x", 1<<20), "long lines": strings.Repeat("x\n", 1<<19),
	}
}

type stringer string

func (s stringer) String() string { return string(s) }

// TestOneRecordIsOneLine logs each text in each place of a record, in both formats. The result must
// be one line of printable characters of bounded length, from which the value can be read back
// unless it is too long.
func TestOneRecordIsOneLine(t *testing.T) {
	const key = "node"
	places := map[string]func(l *slog.Logger, s string){
		"message":           func(l *slog.Logger, s string) { l.Warn(s) },
		"part of a message": func(l *slog.Logger, s string) { l.Warn("ADS: ACK ERROR " + s) },
		"value":             func(l *slog.Logger, s string) { l.Warn("m", key, s) },
		"error":             func(l *slog.Logger, s string) { l.Warn("m", key, errors.New(s)) },
		"wrapped error":     func(l *slog.Logger, s string) { l.Warn("m", key, fmt.Errorf("a: %w", errors.New(s))) },
		"stringer":          func(l *slog.Logger, s string) { l.Warn("m", key, stringer(s)) },
		"list":              func(l *slog.Logger, s string) { l.Warn("m", key, []string{s, s}) },
		"struct":            func(l *slog.Logger, s string) { l.Warn("m", key, struct{ Name, Version string }{s, s}) },
		"bytes":             func(l *slog.Logger, s string) { l.Warn("m", key, []byte(s)) },
		"key":               func(l *slog.Logger, s string) { l.Warn("m", s+".", 1) },
		"group":             func(l *slog.Logger, s string) { l.WithGroup(s+".").Warn("m", key, s) },
		"group value":       func(l *slog.Logger, s string) { l.Warn("m", slog.Group("g", key, s)) },
		"with":              func(l *slog.Logger, s string) { l.With(key, s).Warn("m") },
	}
	for _, asJSON := range []bool{false, true} {
		for name, s := range forged() {
			for place, log := range places {
				var out bytes.Buffer
				logs, err := NewLogs(LogOptions{JSON: asJSON, Out: &out})
				if err != nil {
					t.Fatal(err)
				}
				log(logs.Scope("ads"), s)
				what := fmt.Sprintf("%s as %s, JSON %v", name, place, asJSON)
				checkLine(t, what, place, asJSON, out.String())
				if asJSON {
					checkJSON(t, what, place, s, out.Bytes())
				}
			}
		}
	}
}

func checkLine(t *testing.T, what, place string, asJSON bool, line string) {
	t.Helper()
	text, ended := strings.CutSuffix(line, "\n")
	if !ended {
		t.Fatalf("%s: the line does not end: %.200q", what, line)
	}
	if !asJSON { // only the tabs between the fields
		if n := strings.Count(text, "\t"); n != 3 && n != 4 {
			t.Errorf("%s: %d tabs: %.300q", what, n, text)
		}
		text = strings.ReplaceAll(text, "\t", "")
	}
	if !utf8.ValidString(text) {
		t.Fatalf("%s: no UTF-8: %.300q", what, text)
	}
	for i, r := range text {
		if !unicode.IsPrint(r) {
			t.Fatalf("%s: character %U at %d: %.300q", what, r, i, text)
		}
	}
	// Keys and groups are constants of the program, which JSON does not truncate.
	if most := 10 * longestText; len(line) > most && place != "key" && place != "group" {
		t.Errorf("%s: a line of %d bytes", what, len(line))
	}
}

func checkJSON(t *testing.T, what, place, s string, line []byte) {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(line, &m); err != nil {
		t.Errorf("%s: %v: %.300q", what, err, line)
	}
	if m["scope"] != "ads" || m["level"] != "warn" {
		t.Errorf("%s: scope %v, level %v", what, m["scope"], m["level"])
	}
	want := strings.ToValidUTF8(s, "\ufffd")
	if strings.Contains(s, "\xff") || len(s) > longestText {
		return
	}
	if got := m["msg"]; place == "message" && got != want {
		t.Errorf("%s: message %q, want %q", what, got, want)
	}
	if got := m["node"]; (place == "value" || place == "error" || place == "with") && got != want {
		t.Errorf("%s: value %q, want %q", what, got, want)
	}
}

// TestValuesCannotForgeOthers tests that the end of a value is unambiguous in the text format.
func TestValuesCannotForgeOthers(t *testing.T) {
	var out bytes.Buffer
	logs, err := NewLogs(LogOptions{Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	logs.Scope("ads").Warn("m", "node", `web" peer="10.0.0.1`, "peer", "10.6.6.6")
	if want := `node="web\" peer=\"10.0.0.1" peer=10.6.6.6`; !strings.Contains(out.String(), want) {
		t.Errorf("%q does not contain %q", out.String(), want)
	}
}

func FuzzLogs(f *testing.F) {
	for _, s := range forged() {
		if len(s) < 1000 {
			f.Add(s, s, true)
			f.Add(s, s, false)
		}
	}
	f.Fuzz(func(t *testing.T, message, value string, asJSON bool) {
		var out bytes.Buffer
		logs, err := NewLogs(LogOptions{JSON: asJSON, Out: &out})
		if err != nil {
			t.Fatal(err)
		}
		logs.Scope("ads").Warn(message, "v", value)
		checkLine(t, "fuzz", "value", asJSON, out.String())
	})
}
