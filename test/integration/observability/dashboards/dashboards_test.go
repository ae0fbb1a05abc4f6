package dashboards

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/test/support/document"
	"github.com/meshpilot/meshpilot/test/support/prometheus"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const (
	dashboardsDir = "../../../../manifests/charts/istiod/monitoring/dashboards"
	// dataTime bounds how long a query may take to have data after the start of the load.
	dataTime = 2 * time.Minute
)

// reasons reads a file with lines "NAME: REASON" and returns the reasons by name; a name may have none.
func reasons(t *testing.T, path string) map[string]string {
	t.Helper()
	list := map[string]string{}
	for line := range strings.Lines(document.ReadContent(t, path)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, reason, _ := strings.Cut(line, ": ")
		list[name] = reason
	}
	return list
}

// queries returns the expressions of all panels, by "dashboard / panel / query", with Grafana's
// variables replaced.
func queries(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dashboardsDir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	replacer := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$namespace", ".*", "$pod", ".*")
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			Panels []struct {
				Title   string
				Targets []struct{ RefID, Expr string }
			}
		}
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				name := strings.TrimSuffix(filepath.Base(file), ".json") + " / " + p.Title
				if len(p.Targets) > 1 {
					name += " / " + q.RefID
				}
				all[name] = replacer.Replace(q.Expr)
			}
		}
	}
	if len(all) < 70 {
		t.Fatalf("%d queries: the test is not effective", len(all))
	}
	return all
}

// TestRealMesh runs everything against one mesh, because it takes half a minute to start.
func TestRealMesh(t *testing.T) {
	m, p := startMesh(t)
	keepChanging(t, m)
	t.Run("dashboards", func(t *testing.T) { requireData(t, p, queries(t), reasons(t, "testdata/without_data.txt")) })
	t.Run("metrics of Istio's dashboards", func(t *testing.T) {
		absent, present := map[string]string{}, map[string]string{}
		for name, reason := range reasons(t, "testdata/istio_metrics.txt") {
			present[name] = name
			if reason != "" {
				absent[name] = reason
			}
		}
		requireData(t, p, present, absent)
	})
	t.Run("rates of the topology", func(t *testing.T) { requireRates(t, p.HTTP) })
	t.Run("alerts", func(t *testing.T) { requireEvaluation(t, p) })
}

// requireData fails the test if an expression has no data within dataTime, unless a reason is listed
// for it, or has data although one is.
func requireData(t *testing.T, p prometheus.Client, expressions, absent map[string]string) {
	t.Helper()
	for name := range absent {
		if expressions[name] == "" {
			t.Errorf("%q is listed as without data, and there is no such query", name)
		}
	}
	seen := map[string]bool{} // had data at some time: a rate of what happened once ends
	serving.Eventually(t, dataTime, "all queries have data", func() error {
		var missing []string
		for name, expr := range expressions {
			if absent[name] != "" || seen[name] {
				continue
			}
			n, err := p.Query(t.Context(), expr)
			if err != nil {
				return err
			}
			if seen[name] = n > 0; !seen[name] {
				missing = append(missing, name+": "+expr)
			}
		}
		if len(missing) > 0 {
			slices.Sort(missing)
			return fmt.Errorf("without data:\n%s", strings.Join(missing, "\n"))
		}
		return nil
	})
	for name := range absent {
		n, err := p.Query(t.Context(), expressions[name])
		if err != nil {
			t.Error(err)
		}
		if n > 0 {
			t.Errorf("%s has data, and is listed as without", name)
		}
	}
}

// requireRates fails the test unless the control plane's read API has the rates of the calls that the load
// causes.
func requireRates(t *testing.T, client *http.Client) {
	t.Helper()
	serving.Eventually(t, dataTime, "reviews calls ratings, and client reviews", func() error {
		response, err := client.Get("http://127.0.0.1:8080/api/v1/topology/traffic")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		var x readapi.Traffic
		if err := json.NewDecoder(response.Body).Decode(&x); err != nil {
			return err
		}
		found := map[string]float64{}
		for _, c := range x.Calls {
			found[c.From.String()+" "+c.To.String()] = c.RequestsPerSecond
		}
		const domain = ".default.svc.cluster.local"
		if found["default/client reviews"+domain] < 1 || found["reviews"+domain+" ratings"+domain] <= 0 {
			return fmt.Errorf("the rates are %v, without %d calls: %s", found, x.Omitted, x.Error)
		}
		return nil
	})
}

// requireEvaluation fails the test unless every alert was evaluated without an error.
func requireEvaluation(t *testing.T, p prometheus.Client) {
	t.Helper()
	serving.Eventually(t, dataTime, "all alerts are evaluated", func() error {
		var rules struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
		if err := p.Get(t.Context(), "/rules", url.Values{}, &rules); err != nil {
			return err
		}
		n := 0
		for _, g := range rules.Groups {
			for _, r := range g.Rules {
				if r.Health != "ok" {
					return fmt.Errorf("%s: %s %s", r.Name, r.Health, r.LastError)
				}
				n++
			}
		}
		if n < 30 {
			return fmt.Errorf("%d alerts", n)
		}
		return nil
	})
}
