package agent

import (
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/agent/dns"
	"github.com/meshpilot/meshpilot/internal/agent/relay"
	"github.com/meshpilot/meshpilot/internal/agent/status"
	"github.com/meshpilot/meshpilot/internal/agent/wasm"
	"github.com/meshpilot/meshpilot/test/support/document"
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
	registered := document.RegisteredMetrics(t, m, "istio_agent_")
	slices.Sort(documented)
	if diff := cmp.Diff(documented, registered); diff != "" {
		t.Errorf("docs/METRICS-AGENT.md (-) and the registered metrics (+) differ:\n%s", diff)
	}
}
