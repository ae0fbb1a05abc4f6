package environment

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/test/support/document"
)

// TestDocument compares docs/ENVIRONMENT-AGENT.md with the variable names in this folder.
func TestDocument(t *testing.T) {
	read := document.FindNames(document.ReadSources(t), regexp.MustCompile(`"([A-Z][A-Z0-9]*(_[A-Z0-9]+)+)"`))
	said := document.FindNames(document.ReadContent(t, "../../../docs/ENVIRONMENT-AGENT.md"), regexp.MustCompile("`([A-Z][A-Z0-9]*(_[A-Z0-9]+)+)`"))
	for name := range said { // variables with a common prefix are read by the prefix
		if (strings.HasSuffix(name, "_NAME") || strings.HasPrefix(name, metaJSONPrefix)) && !read[name] {
			delete(said, name)
		}
	}
	delete(said, "PROXY_CONFIG") // read by the command
	if diff := cmp.Diff(slices.Sorted(maps.Keys(read)), slices.Sorted(maps.Keys(said))); diff != "" {
		t.Errorf("docs/ENVIRONMENT-AGENT.md (-is +said):\n%s", diff)
	}
}

// TestDocumentedDefaults: setting a variable to its default of docs/ENVIRONMENT-AGENT.md changes nothing, and each boolean, number
// and duration has one there. Variables of metadata are sent as they are set, so they are left out.
func TestDocumentedDefaults(t *testing.T) {
	table := map[string]string{}
	names := regexp.MustCompile("`([A-Z][A-Z0-9_]*)`")
	literal := regexp.MustCompile(`^(true|false|[0-9]+(\.[0-9]+)?(ms|s|m|h)?)$`)
	for line := range strings.Lines(document.ReadContent(t, "../../../docs/ENVIRONMENT-AGENT.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 {
			continue
		}
		found := names.FindAllStringSubmatch(cells[0], -1)
		values := strings.Split(strings.TrimSpace(cells[2]), ", ")
		for i, value := range values {
			if literal.MatchString(value) && len(found) == len(values) {
				table[found[i][1]] = value
			}
		}
	}
	parse := func(vars Variables) Environment {
		e, err := Parse(vars)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	unset := parse(Variables{})
	for name, value := range table {
		if diff := cmp.Diff(unset, parse(Variables{name: value}), cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
			t.Errorf("docs/ENVIRONMENT-AGENT.md: %s has another default than %s (-unset +set):\n%s", name, value, diff)
		}
	}
	table["TERMINATION_DRAIN_DURATION_SECONDS"] = "" // ProxyConfig has the default
	typed := regexp.MustCompile(`\.(?:readBool|readDuration|readSeconds|readUint32|readFloat|readRatio|readPort)\("([A-Z0-9_]+)", `)
	for _, m := range typed.FindAllStringSubmatch(document.ReadSources(t), -1) {
		if _, ok := table[m[1]]; !ok && !strings.HasPrefix(m[1], "ISTIO_META_") {
			t.Errorf("docs/ENVIRONMENT-AGENT.md has no default of %s", m[1])
		}
	}
}
