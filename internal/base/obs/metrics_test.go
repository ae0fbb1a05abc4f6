package obs

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

// TestDocumentListsAllMetrics compares docs/METRICS.md with the registry: names, types and labels.
func TestDocumentListsAllMetrics(t *testing.T) {
	text, err := os.ReadFile("../../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (counter|gauge|histogram) \\|([a-z_, ]*)\\| (Istio|Istio\\*|ours) \\|")
	var documented []Metric
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		if ours := strings.HasPrefix(m[1], "meshpilot_"); ours != (m[4] == "ours") {
			t.Errorf("docs/METRICS.md lists %s as a metric of %s", m[1], m[4])
		}
		x := Metric{Name: m[1], Type: m[2]}
		if labels := strings.TrimSpace(m[3]); labels != "" {
			x.Labels = strings.Split(labels, ", ")
		}
		documented = append(documented, x)
	}
	registered := NewMetrics().Table()
	if len(registered) < 30 {
		t.Fatalf("only %d metrics: the test is not effective", len(registered))
	}
	for i := range registered {
		registered[i].Help = ""
	}
	slices.SortFunc(documented, func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
	if diff := cmp.Diff(documented, registered); diff != "" {
		t.Errorf("docs/METRICS.md (-) and the registry (+) differ:\n%s", diff)
	}
}

// TestTableIsAllThatIsRegistered compares the table with the registry's content.
func TestTableIsAllThatIsRegistered(t *testing.T) {
	m := NewMetrics()
	inTable := map[string]bool{}
	for _, x := range m.Table() {
		inTable[x.Name] = true
	}
	descriptions := make(chan *prometheus.Desc)
	go func() {
		m.Registry.Describe(descriptions)
		close(descriptions)
	}()
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	for d := range descriptions {
		n := name.FindStringSubmatch(d.String())[1]
		if !inTable[n] && !strings.HasPrefix(n, "go_") && !strings.HasPrefix(n, "process_") {
			t.Errorf("%s is registered and not in the table", n)
		}
	}
}

// TestNamesAreAsIstioHasThem tests that every metric without our prefix has a prefix of Istio's.
func TestNamesAreAsIstioHasThem(t *testing.T) {
	for _, x := range NewMetrics().Table() {
		prefix, _, _ := strings.Cut(x.Name, "_")
		if !slices.Contains([]string{"pilot", "istiod", "istio", "xds", "remote", "citadel", "auto", "sidecar", "galley", "webhook", "grpc", "meshpilot"}, prefix) {
			t.Errorf("%s is neither Istio's nor ours", x.Name)
		}
		if x.Help == "" || !strings.HasSuffix(x.Help, ".") {
			t.Errorf("%s: help %q", x.Name, x.Help)
		}
	}
}

func TestTotals(t *testing.T) {
	m := NewMetrics()
	m.CacheReads(func() uint64 { return 3 }, func() uint64 { return 1 })
	m.Received(5)
	m.Received(4)
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, x := range f.Metric {
			switch f.GetName() {
			case "xds_cache_reads":
				got[x.Label[0].GetValue()] = x.GetCounter().GetValue()
			case "pilot_xds_recv_max":
				got["max"] = x.GetGauge().GetValue()
			}
		}
	}
	if want := map[string]float64{"hit": 3, "miss": 1, "max": 5}; !cmp.Equal(want, got) {
		t.Errorf("%v, want %v", got, want)
	}
}
