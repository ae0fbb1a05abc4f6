package main

import (
	"cmp"
	"reflect"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/test/support/document"
)

// optionsOf returns the options of a control plane with these environment variables and no flags.
func optionsOf(t *testing.T, variables map[string]string) discovery.Options {
	t.Helper()
	o := discovery.Defaults()
	e := environment{lookup: func(name string) (string, bool) {
		v, ok := variables[name]
		return v, ok
	}}
	e.applyTo(&o)
	if e.err != nil {
		t.Fatal(e.err)
	}
	o.Features.TraceSampling = cmp.Or(o.Features.TraceSampling, 1) // as its documentation says
	return o
}

// documentedDefaults returns the table of defaults in docs/ENVIRONMENT.md by name.
func documentedDefaults(t *testing.T) map[string]string {
	t.Helper()
	_, text, found := strings.Cut(document.ReadContent(t, "../../docs/ENVIRONMENT.md"), "\n## Defaults\n")
	if !found {
		t.Fatal("docs/ENVIRONMENT.md has no section Defaults")
	}
	text, _, _ = strings.Cut(text, "\n## ")
	table := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z0-9_]+)` \\| `([^`]*)` \\|").FindAllStringSubmatch(text, -1) {
		if _, twice := table[row[1]]; twice {
			t.Errorf("docs/ENVIRONMENT.md: %s has two defaults", row[1])
		}
		table[row[1]] = row[2]
	}
	return table
}

// TestDefaultsAreDocumented: docs/ENVIRONMENT.md has the default of each variable that is a boolean, a
// number, a duration or an address range, and setting a variable to its default changes no option.
func TestDefaultsAreDocumented(t *testing.T) {
	table := documentedDefaults(t)
	unset := optionsOf(t, nil)
	options := []gocmp.Option{
		gocmp.Exporter(func(reflect.Type) bool { return true }),
		gocmp.FilterPath(func(p gocmp.Path) bool { return p.Last().Type().Kind() == reflect.Func }, gocmp.Ignore()),
	}
	for name, value := range table {
		if diff := gocmp.Diff(unset, optionsOf(t, map[string]string{name: value}), options...); diff != "" {
			t.Errorf("docs/ENVIRONMENT.md: %s has another default than %s (-unset +set):\n%s", name, value, diff)
		}
	}
	typed := regexp.MustCompile(`\.(?:boolOr|setInt|setFloat|setDuration)\("([A-Z0-9_]+)"`)
	for _, m := range typed.FindAllStringSubmatch(document.ReadSources(t), -1) {
		if _, ok := table[m[1]]; !ok {
			t.Errorf("docs/ENVIRONMENT.md has no default of %s", m[1])
		}
	}
}
