package observability

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/test/support/document"
	"github.com/meshpilot/meshpilot/test/support/prometheus"
)

const (
	root       = "../../.."
	alertsFile = root + "/manifests/charts/istiod/monitoring/alerts.yaml"
	unitTests  = "testdata/alerts_test.yaml"
	runbookURL = "https://github.com/meshpilot/meshpilot/blob/main/docs/runbooks/"
)

// ruleFile is a rule file of Prometheus, as far as the tests read it.
type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []alert
	}
}

// alert is an alerting rule.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// row returns the line of the alert in docs/OBSERVABILITY.md.
func (a alert) row() string {
	when := a.Annotations["summary"]
	if a.For != "" {
		when += ", for " + a.For
	}
	return fmt.Sprintf("| [%s](runbooks/%s.md) | %s | %s |\n", a.Alert, a.Alert, a.Labels["severity"], when)
}

// alerts returns the rules of the chart.
func alerts(t *testing.T) []alert {
	t.Helper()
	var f ruleFile
	if err := yaml.UnmarshalStrict([]byte(document.ReadContent(t, alertsFile)), &f); err != nil {
		t.Fatal(err)
	}
	var list []alert
	for _, g := range f.Groups {
		list = append(list, g.Rules...)
	}
	if len(list) < 30 {
		t.Fatalf("%d alerts: the test is not effective", len(list))
	}
	return list
}

// TestAlertsAreComplete: each alert has a severity, texts, a row in docs/OBSERVABILITY.md and a
// runbook with all sections, and there is no runbook without an alert.
func TestAlertsAreComplete(t *testing.T) {
	var runbooks []string
	page := document.ReadContent(t, filepath.Join(root, "docs", "OBSERVABILITY.md"))
	for _, a := range alerts(t) {
		if !strings.Contains(page, a.row()) {
			t.Errorf("docs/OBSERVABILITY.md lacks %q", a.row())
		}
		file := a.Alert + ".md"
		runbooks = append(runbooks, file)
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
			t.Errorf("%s: severity %q", a.Alert, a.Labels["severity"])
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s: a text is missing: %v", a.Alert, a.Annotations)
		}
		if url := a.Annotations["runbook_url"]; url != runbookURL+file {
			t.Errorf("%s: runbook %q", a.Alert, url)
		}
		if _, err := time.ParseDuration(a.For); a.For != "" && err != nil {
			t.Errorf("%s: for: %v", a.Alert, err)
		}
		text := document.ReadContent(t, filepath.Join(root, "docs", "runbooks", file))
		for _, want := range []string{"# " + a.Alert + "\n", a.Annotations["summary"], "Severity: " + a.Labels["severity"], "\n## Meaning\n", "\n## Diagnosis\n", "\n## Mitigation\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q", file, want)
			}
		}
	}
	files, err := os.ReadDir(filepath.Join(root, "docs", "runbooks"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !slices.Contains(runbooks, f.Name()) {
			t.Errorf("docs/runbooks/%s is of no alert", f.Name())
		}
	}
}

// TestRunbooksNameCommands: every command of pilotctl in a runbook exists.
func TestRunbooksNameCommands(t *testing.T) {
	known := document.FindNames(document.ReadContent(t, filepath.Join(root, "docs", "PILOTCTL.md")), regexp.MustCompile(`(?m)^### pilotctl (.+)$`))
	line := regexp.MustCompile("(?m)(?:^    |`)pilotctl ([^`\n]+)")
	found := 0
	for _, a := range alerts(t) {
		text := document.ReadContent(t, filepath.Join(root, "docs", "runbooks", a.Alert+".md"))
		for command := range document.FindNames(text, line) {
			found++
			words := strings.Fields(command)
			if !known[words[0]] && (len(words) < 2 || !known[words[0]+" "+words[1]]) {
				t.Errorf("%s.md: there is no pilotctl %s", a.Alert, command)
			}
		}
	}
	if found < 30 {
		t.Fatalf("%d commands: the test is not effective", found)
	}
}

// TestAlertsNameMetrics: every metric in an alert is one of the control plane or the agent and has
// the labels that the alert names.
func TestAlertsNameMetrics(t *testing.T) {
	known := knownMetrics(t)
	for _, a := range alerts(t) {
		if err := known.check(a.Expr); err != nil {
			t.Errorf("%s: %v", a.Alert, err)
		}
	}
	for expr, want := range map[string]string{
		`rate(meshpilot_made_up[5m]) > 0`:                "meshpilot_made_up",
		`meshpilot_leader{job_name="x"}`:                 "job_name",
		`sum by (namespace, reason) (meshpilot_leader)`:  "reason",
		`pilot_debounce_time > 1`:                        "pilot_debounce_time",
		`rate(pilot_services_bucket[1m])`:                "pilot_services_bucket",
		`up == 0 unless on (instance) (meshpilot_readi)`: "meshpilot_readi",
	} {
		if err := known.check(expr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %s", expr, err, want)
		}
	}
}

// TestAlertsHaveTests: each alert has a unit test in which it does not fire, and then fires.
func TestAlertsHaveTests(t *testing.T) {
	text := document.ReadContent(t, unitTests)
	for _, a := range alerts(t) {
		expr := fmt.Sprintf(`expr: ALERTS{alertname=%q,alertstate="firing"}`, a.Alert)
		if strings.Count(text, expr) < 2 || !strings.Contains(text, fmt.Sprintf(`alertname=%q, alertstate="firing"`, a.Alert)) {
			t.Errorf("%s has no test of %s with and without a result", unitTests, expr)
		}
	}
}

// TestPromtool: Prometheus' own tool accepts the rules, and their unit tests pass.
func TestPromtool(t *testing.T) {
	prometheus.Require(t)
	prometheus.Binary(t, "prometheus") // for the package dashboards, whose tests have no network
	for _, args := range [][]string{{"check", "rules", "--lint-fatal", alertsFile}, {"test", "rules", unitTests}} {
		if out, err := prometheus.Promtool(t, ".", args...); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
