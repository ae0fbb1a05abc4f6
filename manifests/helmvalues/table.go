package helmvalues

import (
	"embed"
	"fmt"

	"sigs.k8s.io/yaml"
)

//go:embed tables/*.yaml
var tables embed.FS

// internalDefaults is the key of values.yaml that contains the defaults, as in Istio's charts:
// templates see below it what the installation did not set, so that a profile can come between.
const internalDefaults = "_internal_defaults_do_not_set"

// Value is a value of a chart.
type Value struct {
	// Name is its path in the values, such as global.proxy.image.
	Name string `json:"name"`
	// Type is string (default), scalar (a string or a number), boolean, integer, number,
	// intOrString, array, object (with any content) or any.
	Type string `json:"type"`
	// Enum are the only values that are accepted, if not empty.
	Enum []any `json:"enum"`
	// Own reports that Istio's chart does not have the value.
	Own bool `json:"own"`
	// Rejected is the reason why the value is rejected, with its successor if it has one. It is
	// empty for a value that is honoured.
	Rejected string `json:"rejected"`
	// Accepts are the values for which a rejected value is not rejected: Istio's default, if it
	// has no effect.
	Accepts []any `json:"accepts"`
	// RejectedValues are the reasons by value, for a value that is otherwise honoured.
	RejectedValues map[string]string `json:"rejectedValues"`
	// Unchanged is the reason why the chart's output does not depend on an accepted value.
	Unchanged string `json:"unchanged"`
	// Note is what a reader of the table has to know besides the name.
	Note string `json:"note"`
}

// Charts returns the names of the charts.
func Charts() []string { return []string{"base", "istiod", "gateway", "cni"} }

// Values returns the table of a chart, in the order of its file. It returns an error for a chart
// that does not exist.
func Values(chart string) ([]Value, error) {
	text, err := tables.ReadFile("tables/" + chart + ".yaml")
	if err != nil {
		return nil, err
	}
	var list []Value
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		return nil, fmt.Errorf("tables/%s.yaml: %w", chart, err)
	}
	return list, nil
}

// legacyPrefix returns the key of a chart below which all its values can be set too, as in Istio's
// charts, or "".
func legacyPrefix(chart string) string {
	return map[string]string{"istiod": "pilot", "cni": "cni"}[chart]
}
