package observability

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/test/support/document"
)

// metricLabels are the labels of each metric that may be queried, by the name of the series: a
// histogram is three series.
type metricLabels map[string][]string

// targetLabels are set by Prometheus, for each target or by the operator's monitors.
func targetLabels() []string { return []string{"job", "namespace", "pod", "instance"} }

// knownMetrics returns the series of the control plane, from its registry, and of the agent, from
// its document, which the agent's tests compare with what it registers.
func knownMetrics(t *testing.T) metricLabels {
	t.Helper()
	known := metricLabels{"up": nil}
	m := obs.NewMetrics()
	for _, x := range m.Table() {
		known.add(x.Name, x.Type, x.Labels)
	}
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if n := f.GetName(); strings.HasPrefix(n, "go_") || strings.HasPrefix(n, "process_") {
			known[n] = nil
		}
	}
	row := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (counter|gauge|histogram) \\|([a-z_, ]*)\\|")
	for _, x := range row.FindAllStringSubmatch(document.ReadContent(t, filepath.Join(root, "docs", "METRICS-AGENT.md")), -1) {
		known.add("istio_agent_"+x[1], x[2], strings.FieldsFunc(x[3], func(r rune) bool { return r == ' ' || r == ',' }))
	}
	if len(known) < 120 {
		t.Fatalf("%d series: the test is not effective", len(known))
	}
	return known
}

// add adds the series of a metric of a type (counter, gauge, histogram).
func (k metricLabels) add(name, kind string, labels []string) {
	if kind != "histogram" {
		k[name] = labels
		return
	}
	k[name+"_count"], k[name+"_sum"], k[name+"_bucket"] = labels, labels, append(slices.Clone(labels), "le")
}

var (
	texts     = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'`)
	ranges    = regexp.MustCompile(`\[[^\]]*\]|offset \w+`)
	groupings = regexp.MustCompile(`\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	selectors = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{[^}]*\}|\()?`)
	words     = regexp.MustCompile(`[a-zA-Z_][a-zA-Z0-9_]*`)
)

// check returns an error that names each series of an expression that is unknown, each label of a
// selector that its series does not have, and each label of a grouping that none of the series has.
func (k metricLabels) check(expr string) error {
	var errs []error
	expr = ranges.ReplaceAllString(texts.ReplaceAllString(expr, ""), "")
	var grouped []string
	for _, g := range groupings.FindAllStringSubmatch(expr, -1) {
		grouped = append(grouped, words.FindAllString(g[1], -1)...)
	}
	allowed := map[string]bool{}
	for _, s := range selectors.FindAllStringSubmatch(groupings.ReplaceAllString(expr, " "), -1) {
		name, rest := s[1], s[2]
		if rest == "(" || slices.Contains([]string{"and", "or", "unless", "bool"}, name) {
			continue
		}
		labels, found := k[name]
		if !found {
			errs = append(errs, fmt.Errorf("there is no series %s", name))
			continue
		}
		own := append(targetLabels(), labels...)
		for _, l := range own {
			allowed[l] = true
		}
		for _, l := range words.FindAllString(rest, -1) {
			if !slices.Contains(own, l) {
				errs = append(errs, fmt.Errorf("%s has no label %s", name, l))
			}
		}
	}
	for _, l := range grouped {
		if !allowed[l] {
			errs = append(errs, fmt.Errorf("label %s is of none of the series; they have %v", l, slices.Sorted(maps.Keys(allowed))))
		}
	}
	return errors.Join(errs...)
}
