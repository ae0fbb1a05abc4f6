package obs

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

func TestTextLayout(t *testing.T) {
	var out bytes.Buffer
	logs, err := NewLogs(LogOptions{Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	logs.Scope("ads").With("node", "web 1").Info("CDS: PUSH", "resources", 3)
	logs.Scope(DefaultScope).Warn("plain")
	want := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z\tinfo\tads\tCDS: PUSH\tnode="web 1" resources=3\n` +
		`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z\twarn\tplain\n$`)
	if !want.MatchString(out.String()) {
		t.Errorf("log:\n%s", out.String())
	}
}

func TestLevelsPerScope(t *testing.T) {
	var out bytes.Buffer
	logs, err := NewLogs(LogOptions{Levels: "warn,ads:debug", Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	logs.Scope("ads").Debug("seen")
	logs.Scope("model").Info("hidden")
	if err := logs.SetLevel("model", "info"); err != nil {
		t.Fatal(err)
	}
	logs.Scope("model").Info("shown")
	if got := out.String(); !strings.Contains(got, "seen") || strings.Contains(got, "hidden") || !strings.Contains(got, "shown") {
		t.Errorf("log:\n%s", got)
	}
}

func TestBadLevelIsAnError(t *testing.T) {
	if _, err := NewLogs(LogOptions{Levels: "ads:loud"}); err == nil || !strings.Contains(err.Error(), "loud") {
		t.Errorf("error %v does not name the level", err)
	}
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	logs, err := NewLogs(LogOptions{JSON: true, Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	logs.Scope("ads").Info("hello", "n", 1)
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if at, ok := line["time"].(string); !ok || !strings.HasSuffix(at, "Z") || len(at) != len(timeLayout) {
		t.Errorf("time %v", line["time"])
	}
	if line["level"] != "info" || line["scope"] != "ads" || line["msg"] != "hello" || line["n"] != 1.0 {
		t.Errorf("line %v", line)
	}
}
