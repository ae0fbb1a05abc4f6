package architecture

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// TestSecurityDocument checks that the tests which docs/SECURITY.md names exist in the packages that it names, that every row
// states the size at which it is shown, and that the Envoy that is fetched is not older than the floor.
func TestSecurityDocument(t *testing.T) {
	check := scorecard.Check(t, 34)
	text, err := os.ReadFile("../../docs/SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	named := checkNamedTests(t, "docs/SECURITY.md", string(text))
	check.Measured("named tests", named)
	if named < 70 {
		t.Fatalf("only %d tests are named", named)
	}
	for _, row := range regexp.MustCompile(`(?m)^\|.*\|$`).FindAllString(string(text), -1) {
		if strings.HasPrefix(row, "|---") || strings.HasPrefix(row, "| what went wrong") {
			continue
		}
		cells := strings.Split(strings.Trim(row, "|"), " | ")
		if !strings.Contains(row, "](../") {
			t.Errorf("docs/SECURITY.md: no test is named in %s", row)
		}
		if len(cells) != 4 || !regexp.MustCompile(`\d|\b(one|once|each|every|a real|file)\b`).MatchString(cells[2]) || strings.Contains(cells[2], "](../") {
			t.Errorf("docs/SECURITY.md: want four columns, and in the third the size at which it is shown: %s", row)
		}
	}
	floor := regexp.MustCompile(`Floor: Envoy (\d+\.\d+\.\d+)`).FindStringSubmatch(string(text))
	if floor == nil || older(envoy.Version, floor[1]) {
		t.Errorf("the Envoy that is fetched is %s, the floor %q", envoy.Version, floor)
	}
}

// older compares versions of three numbers of few digits.
func older(a, b string) bool {
	padded := func(v string) (out string) {
		for part := range strings.SplitSeq(v, ".") {
			out += strings.Repeat("0", 6-len(part)) + part
		}
		return out
	}
	return padded(a) < padded(b)
}
