package scorecard

import (
	"testing"
	"time"
)

// recorder is a testing.TB that records attributes.
type recorder struct {
	testing.TB
	attributes []string
	skipped    bool
}

func (r *recorder) Helper()                { /* nothing to mark */ }
func (r *recorder) Attr(key, value string) { r.attributes = append(r.attributes, key+" "+value) }
func (r *recorder) Skip(...any)            { r.skipped = true }

func TestAttributes(t *testing.T) {
	r := &recorder{}
	check := Check(r, 8, Size("rounds", 12500), Size("requests per second", 1000))
	check.Measured("worst gap", 1234567*time.Microsecond)
	want := []string{
		`scorecard.check {"check":8,"size":[{"name":"rounds","value":"12,500"},{"name":"requests per second","value":"1,000"}]}`,
		`scorecard.measured {"check":8,"figure":{"name":"worst gap","value":"1.23s"}}`,
	}
	if len(r.attributes) != 2 || r.attributes[0] != want[0] || r.attributes[1] != want[1] {
		t.Errorf("attributes %q, want %q", r.attributes, want)
	}
}

func TestFormat(t *testing.T) {
	for want, value := range map[string]any{
		"0": 0, "999": 999, "-1,000": -1000, "1,234,567": uint64(1234567), "0.25": 0.25, "99.9": 99.91,
		"1m30s": 90 * time.Second, "12.3ms": 12345 * time.Microsecond, "SotW / delta": "SotW |\n delta", "true": true,
	} {
		if got := formatValue(value); got != want {
			t.Errorf("format(%v) = %q, want %q", value, got, want)
		}
	}
}

func TestBySize(t *testing.T) {
	for variable, want := range map[string]int{"": 1, "short": 1, "hour": 2, "soak": 3} {
		t.Setenv(SizeVariable, variable)
		if got := BySize(1, 2, 3); got != want {
			t.Errorf("%s=%q: %d, want %d", SizeVariable, variable, got, want)
		}
		r := &recorder{}
		if Heavy(r); r.skipped != (variable == "") {
			t.Errorf("%s=%q: heavy test skipped: %v", SizeVariable, variable, r.skipped)
		}
	}
}
