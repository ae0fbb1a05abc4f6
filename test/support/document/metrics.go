package document

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// RegisteredMetrics returns the metrics that a registry or collector describes, sorted, in the form
// NAME{LABEL,...}. All names must begin with prefix, which is left out of the result. Metrics of the
// Go runtime and of the process are omitted. The test fails for a description of another form.
func RegisteredMetrics(
	t testing.TB, registry interface{ Describe(chan<- *prometheus.Desc) }, prefix string,
) []string {
	t.Helper()
	descriptions := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(descriptions)
		close(descriptions)
	}()
	shape := regexp.MustCompile(`fqName: "` + prefix + `([^"]+)".*variableLabels: \{([^}]*)\}`)
	var list []string
	for d := range descriptions {
		found := shape.FindStringSubmatch(d.String())
		if found == nil {
			t.Fatalf("cannot read %s", d)
		}
		if !strings.HasPrefix(found[1], "go_") && !strings.HasPrefix(found[1], "process_") {
			list = append(list, found[1]+"{"+found[2]+"}")
		}
	}
	slices.Sort(list)
	return list
}
