package scorecard

import (
	"encoding/json"
	"testing"
)

// Keys of the test attributes that a test emits. Their values are a Declaration and a Measurement
// in JSON.
const (
	CheckAttribute    = "scorecard.check"
	MeasuredAttribute = "scorecard.measured"
)

// A Figure is a named quantity: a size at which a test ran, or its measurement.
type Figure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// A Declaration is the value of a CheckAttribute: the check that a test is part of, and the size at
// which it ran.
type Declaration struct {
	Check int      `json:"check"`
	Size  []Figure `json:"size,omitempty"`
}

// A Measurement is the value of a MeasuredAttribute.
type Measurement struct {
	Check  int    `json:"check"`
	Figure Figure `json:"figure"`
}

// Size returns a figure for Check: rounds, requests, clients, seconds.
func Size(name string, value any) Figure { return Figure{Name: name, Value: formatValue(value)} }

// A Record collects the measurements of a test for one check.
type Record struct {
	t      testing.TB
	number int
}

// Check declares that t proves the check of this number, or a part of it, at the given size. A test
// that is part of several checks calls it once for each. It must be called before the test can
// fail, so that a failure is attributed to the check.
func Check(t testing.TB, number int, size ...Figure) Record {
	t.Helper()
	emitRecord(t, CheckAttribute, Declaration{Check: number, Size: size})
	return Record{t: t, number: number}
}

// Measured reports a figure that the document shows beside the result. A test reports its figures
// before it asserts on them, so that a failed row shows them too. Numbers get separators of
// thousands, durations are rounded.
func (r Record) Measured(name string, value any) {
	r.t.Helper()
	emitRecord(
		r.t,
		MeasuredAttribute,
		Measurement{Check: r.number, Figure: Figure{Name: name, Value: formatValue(value)}},
	)
}

func emitRecord(t testing.TB, key string, value any) {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("encode test attribute %s: %v", key, err)
	}
	t.Attr(key, string(encoded))
}
