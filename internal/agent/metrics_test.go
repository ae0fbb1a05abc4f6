package agent

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshpilot/meshpilot/internal/agent/dns"
	"github.com/meshpilot/meshpilot/internal/agent/relay"
	"github.com/meshpilot/meshpilot/internal/agent/status"
	"github.com/meshpilot/meshpilot/internal/agent/wasm"
)

// TestDocumentListsAllMetrics compares docs/METRICS-AGENT.md with the registered metrics.
func TestDocumentListsAllMetrics(t *testing.T) {
	text, err := os.ReadFile("../../docs/METRICS-AGENT.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (?:counter|gauge|histogram) \\| ?([a-z_]*) ?\\| (?:Istio|Istio\\*|ours) \\|").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, m[1]+"{"+m[2]+"}")
	}
	m := status.NewMetrics()
	m.RegisterExpiries(func() map[string]time.Time { return nil })
	relay.NewMetrics(m.Registerer())
	wasm.NewMetrics(m.Registerer())
	if _, err := dns.Open(dns.Options{Metrics: m.Registerer()}); err != nil {
		t.Fatal(err)
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		m.Describe(descriptions)
		close(descriptions)
	}()
	shape := regexp.MustCompile(`fqName: "istio_agent_([^"]+)".*variableLabels: \{([^}]*)\}`)
	var registered []string
	for d := range descriptions {
		found := shape.FindStringSubmatch(d.String())
		if found == nil {
			t.Fatalf("cannot read %s", d)
		}
		if !strings.HasPrefix(found[1], "go_") && !strings.HasPrefix(found[1], "process_") {
			registered = append(registered, found[1]+"{"+found[2]+"}")
		}
	}
	slices.Sort(documented)
	slices.Sort(registered)
	if diff := cmp.Diff(documented, registered); diff != "" {
		t.Errorf("docs/METRICS-AGENT.md (-) and the registered metrics (+) differ:\n%s", diff)
	}
}
