package check

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
)

// replicas returns a control plane of two replicas with the same pages. The second one has the page of
// path replaced.
func replicas(t *testing.T, path, page string) *connect.ControlPlane {
	t.Helper()
	common := map[string]string{
		"/ready": "", "/version": "0.6.0-x-Clean", "/debug/problemz": "[]", "/debug/registryz": `[{"hostname":"a"}]`,
		"/debug/configz":  `[{"kind":"Gateway","metadata":{"namespace":"shop","name":"web"},"spec":{}}]`,
		"/debug/clusterz": `[{"id":"Kubernetes","syncStatus":"synced"}]`, "/debug/syncz": "[]",
		"/metrics": fmt.Sprintf("citadel_server_cert_chain_expiry_timestamp %d\n", time.Now().Add(1000*time.Hour).Unix()),
	}
	c := &connect.ControlPlane{Complete: true}
	for i, name := range []string{"istiod-a", "istiod-b"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, known := common[r.URL.Path]
			if i == 1 && r.URL.Path == path {
				text = page
			}
			if !known || text == "503" {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_, _ = w.Write([]byte(text))
		}))
		t.Cleanup(s.Close)
		c.Replicas = append(c.Replicas, &connect.Replica{Name: name, BaseURL: s.URL, Transport: http.DefaultTransport})
	}
	return c
}

// line makes all checks of a control plane without a cluster, and returns the one of a condition.
func line(t *testing.T, c *connect.ControlPlane, condition string, now func() time.Time) Result {
	t.Helper()
	list := (&Target{Control: c, Now: now, Timeout: 20 * time.Second}).Run(t.Context())
	i := slices.IndexFunc(list, func(r Result) bool { return r.Check == condition })
	if i < 0 {
		t.Fatalf("no line %q in %+v", condition, list)
	}
	return list[i]
}

// TestReplicaChecks breaks one page of the second replica at a time. The line passes without that.
func TestReplicaChecks(t *testing.T) {
	proxy := func(fields string) string { return `[{"proxy":"web.shop",` + fields + `}]` }
	problem := `[{"kind":"Gateway","namespace":"shop","name":"web","field":"spec","reason":"bad","severity":"error"}]`
	passed := map[string]bool{}
	for _, r := range (&Target{Control: replicas(t, "", ""), Now: time.Now, Timeout: 20 * time.Second}).Run(t.Context()) {
		passed[r.Check] = r.Status == Pass
	}
	for _, c := range []struct {
		condition, path, page string
		status                Status
		detail                string
	}{
		{"every replica answers", "/ready", "503", Fail, "istiod-b: /ready 503"},
		{"the replicas have the same version", "/version", "0.5.0-x-Clean", Warn, "0.5.0-x-Clean: istiod-b"},
		{"the replicas agree on the configuration", "/debug/configz", "[]", Fail, "Gateway shop/web differs between istiod-a and istiod-b"},
		{"the replicas agree on the configuration", "/debug/registryz", "[]", Fail, "service a differs"},
		{"no configuration object has errors", "/debug/problemz", problem, Warn, "bad"},
		{"the signing certificates are valid", "/metrics", "citadel_server_cert_chain_expiry_timestamp 1e9\n", Fail, "istiod-b: the signing certificate has expired at 2001"},
		{"all clusters are in sync", "/debug/clusterz", `[{"id":"west","syncStatus":"timeout","waiting":"no route"}]`, Fail, "istiod-b: cluster west is timeout no route"},
		{"no proxy refuses its configuration", "/debug/syncz", proxy(`"resources":{"x.Cluster":{"lastError":"bad cluster"}}`), Fail, "web.shop refuses Cluster: bad cluster"},
		{"no proxy refuses its configuration", "/debug/syncz", proxy(`"resources":{"x.Cluster":{"quarantined":["a"]}}`), Fail, "web.shop is not sent Cluster a"},
		{"no proxy is behind", "/debug/syncz", proxy(`"resources":{"x.Cluster":{"sent":"2","acked":"1","sentTime":"2026-01-01T00:00:00Z"}}`), Warn, "has not acknowledged Cluster"},
		{"the Envoy versions are supported", "/debug/syncz", proxy(`"envoy_version":"1.30.1"`), Warn, "Envoy 1.30.1 is older than 1.36"},
		{"the Envoy versions are supported", "/debug/syncz", proxy(`"envoy_version":"1.50.0"`), Warn, "Envoy 1.50.0 is newer than 1.40"},
	} {
		if !passed[c.condition] {
			t.Errorf("%s does not pass in a healthy control plane", c.condition)
		}
		r := line(t, replicas(t, c.path, c.page), c.condition, time.Now)
		if r.Status != c.status || !strings.Contains(r.Detail, c.detail) || r.Hint == "" {
			t.Errorf("%s: %s %q (hint %q), want %s %q", c.condition, r.Status, r.Detail, r.Hint, c.status, c.detail)
		}
	}
	written := `[{"kind":"Gateway","metadata":{"namespace":"shop","name":"web","resourceVersion":"7"},"spec":{}}]`
	if r := line(t, replicas(t, "/debug/configz", written), "the replicas agree on the configuration", time.Now); r.Status != Pass {
		t.Errorf("after a write that changes only the resource version: %+v", r)
	}
	late := func() time.Time { return time.Now().Add(-10 * time.Minute) }
	if r := line(t, replicas(t, "", ""), "clocks agree", late); r.Status != Fail || !strings.Contains(r.Detail, "istiod-a differs by ") {
		t.Errorf("clocks: %+v", r)
	}
}

// TestSkippedChecks runs the checks with neither a cluster nor a control plane.
func TestSkippedChecks(t *testing.T) {
	list := (&Target{ControlError: errors.New("no route"), Now: time.Now, Timeout: time.Second}).Run(t.Context())
	for _, r := range list {
		want := Skip
		switch r.Check {
		case "every replica answers":
			want = Fail
		case "clocks agree":
			continue // there is nothing to compare
		}
		if r.Status != want {
			t.Errorf("%s: %s %q, want %s", r.Check, r.Status, r.Detail, want)
		}
	}
}

// TestDifferenceNamesReplicas: a difference names the two replicas that were compared, also if the first
// one did not answer.
func TestDifferenceNamesReplicas(t *testing.T) {
	c := replicas(t, "/debug/configz", "[]")
	broken := replicas(t, "/debug/configz", "503").Replicas[1]
	broken.Name = "istiod-0"
	c.Replicas = append([]*connect.Replica{broken}, c.Replicas...)
	r := line(t, c, "the replicas agree on the configuration", time.Now)
	for _, want := range []string{"istiod-0: /debug/configz 503", "Gateway shop/web differs between istiod-a and istiod-b"} {
		if !strings.Contains(r.Detail, want) {
			t.Errorf("%q is not in %q", want, r.Detail)
		}
	}
}
