package authorization

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/calltest"
	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
)

// logTime bounds the wait for lines of the access log.
const logTime = 10 * time.Second

// said is what is known of a call's end: by the explanation, or by the access log.
type said struct {
	details string
	tried   map[string]string
	// audited is set if a rule of AUDIT matched. Only access logs have it.
	audited bool
}

// verdictOf says an explanation's ending in the words of expectations.
func verdictOf(p *explain.Path) (verdict string, s said) {
	if len(p.Endings) != 1 || !p.Supported() {
		return "unknown", s
	}
	e := p.Endings[0]
	s = said{details: e.Details, tried: map[string]string{}}
	for _, filter := range []string{"envoy.filters.http.rbac", "envoy.filters.network.rbac"} {
		for name, v := range p.Metadata[filter] {
			s.tried[name] = fmt.Sprint(v)
		}
	}
	return calltest.DecisionOf(e), s
}

// judge holds a verdict, and what is said of it, against what the case expects.
func (c *testCase) judge(t testing.TB, verdict string, s said) (wrong []string) {
	want := c.expected(t)
	if c.Call == "" && want.Decision == "deny" {
		want.Decision = "closed" // there is no other way to refuse bytes
	}
	if verdict != want.Decision {
		wrong = append(wrong, fmt.Sprintf("%s, want %s", verdict, c.Expect))
	}
	if want.Details != "" && s.details != want.Details {
		wrong = append(wrong, fmt.Sprintf("it is said to be %s, want %s", s.details, want.Details))
	}
	if want.Decision == "allow" && want.By != "" && s.tried["enforced_effective_policy_id"] != want.Policy {
		wrong = append(wrong, fmt.Sprintf("it is let in by %s, want %s", s.tried["enforced_effective_policy_id"], want.Policy))
	}
	for name, value := range c.Tried {
		if s.tried[name] != value {
			wrong = append(wrong, fmt.Sprintf("tried: %s is %q, want %q", name, s.tried[name], value))
		}
	}
	return wrong
}

// accessLog is what the Envoy has logged: by the case's name, or the caller's address.
type accessLog map[string]said

// readLog waits until all lines of calls are there that are to be.
func readLog(t testing.TB, path string, keys []string) accessLog {
	t.Helper()
	for deadline := time.Now().Add(logTime); ; time.Sleep(10 * time.Millisecond) {
		log := parseLog(t, path)
		var missing []string
		for _, k := range keys {
			if _, ok := log[k]; !ok {
				missing = append(missing, k)
			}
		}
		if len(missing) == 0 {
			return log
		}
		if time.Now().After(deadline) {
			t.Fatalf("the access log says nothing of %d calls: %q", len(missing), missing)
		}
	}
}

func parseLog(t testing.TB, path string) accessLog {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	log := accessLog{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 7 || !strings.HasSuffix(line, "\n") {
			continue // it is still being written
		}
		s := said{details: fields[2], tried: map[string]string{}, audited: fields[6] == "true"}
		if s.details == "-" || s.details == "via_upstream" {
			s.details = strings.TrimPrefix(fields[3], "-")
		}
		for _, metadata := range fields[4:6] {
			var values map[string]any
			if metadata != "-" && json.Unmarshal([]byte(metadata), &values) == nil {
				for name, v := range values {
					s.tried[name] = fmt.Sprint(v)
				}
			}
		}
		key := fields[0]
		if key == "-" {
			key = fields[1]
		}
		log[key] = s
	}
	return log
}
