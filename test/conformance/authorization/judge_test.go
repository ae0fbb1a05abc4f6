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

// logTime is the timeout of the wait for lines of the access log.
const logTime = 10 * time.Second

// said is the result of a call according to the explanation, or to the access log.
type said struct {
	details string
	tried   map[string]string
	// audited is set if an AUDIT rule matched. It is known only from access logs.
	audited bool
}

// verdictOf returns the result of an explanation in the syntax of expectations.
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

// judge compares a verdict and its reported reason with the expectation of the case.
func (c *testCase) judge(t testing.TB, verdict string, s said) (wrong []string) {
	want := c.expected(t)
	if c.Call == "" && want.Decision == "deny" {
		want.Decision = "closed" // raw connections can only be refused in this way
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

// accessLog contains the lines of Envoy's access log, by the case's name or the caller's address.
type accessLog map[string]said

// readLog waits until all expected lines of calls have been written.
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
			t.Fatalf("the access log lacks %d calls: %q", len(missing), missing)
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
