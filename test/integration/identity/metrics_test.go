package identity

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// metricLabels: without the label source_principal, which some meshes remove because it has many
// values, servers still report whether callers used mutual TLS, and their namespace.
func metricLabels(t *testing.T, w *world) {
	w.writeConfig(t, "telemetry", `apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: default, namespace: default}
spec:
  metrics:
  - providers: [{name: prometheus}]
    overrides: [{match: {mode: SERVER}, tagOverrides: {source_principal: {operation: REMOVE}}}]
`)
	defer w.writeConfig(t, "telemetry", "")
	inTheClear := func() {
		if _, err := w.answers(t, nil); err != nil {
			t.Error(err)
		}
	}
	for _, test := range []struct {
		call                      func()
		metric, policy, namespace string
	}{
		{func() { w.postSecret(t, "", "") }, "istio_requests_total", "mutual_tls", "default"},
		{func() { w.sendLine(t, "hello") }, "istio_tcp_connections_opened_total", "mutual_tls", "default"},
		{inTheClear, "istio_requests_total", "none", "unknown"},
	} {
		serving.Eventually(t, effectTime, test.metric+" of "+test.policy, func() error {
			test.call()
			return w.findSeries(t, test.metric, `connection_security_policy="`+test.policy+`"`,
				`source_workload_namespace="`+test.namespace+`"`)
		})
	}
}

// findSeries returns an error unless the server's metrics have a series of the metric with all labels
// and without source_principal.
func (w *world) findSeries(t *testing.T, metric string, labels ...string) error {
	t.Helper()
	c := w.Workload("server").Node.Client(effectTime)
	defer c.CloseIdleConnections()
	text, err := serving.Ask(t.Context(), c, "http://127.0.0.1:15020/stats/prometheus")
	if err != nil {
		return err
	}
	var found []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, metric+"{") || strings.Contains(line, "source_principal=") {
			continue
		}
		found = append(found, line)
		all := true
		for _, l := range labels {
			all = all && strings.Contains(line, l)
		}
		if all {
			return nil
		}
	}
	return fmt.Errorf("no series of %s with %q among:\n%s", metric, labels, strings.Join(found, ""))
}
