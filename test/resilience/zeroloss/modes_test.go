package zeroloss

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// preconnect makes the client's Envoy open more connections than it has requests for. Those without a
// request have sent no byte yet, so the server's Envoy has not assigned them to a filter chain.
const preconnect = `
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: preconnect, namespace: default}
spec:
  workloadSelector: {labels: {app: client}}
  configPatches:
  - applyTo: CLUSTER
    match: {context: SIDECAR_OUTBOUND}
    patch: {operation: MERGE, value: {preconnect_policy: {per_upstream_preconnect_ratio: 3}}}
`

// TestUnusedConnectionsAtModeChange switches mutual TLS off and to STRICT while the client's Envoy
// keeps connections that have not carried a request yet. An unused connection in the clear does not
// drain with the server's plain-text filter chain: the server closes it when its first request comes.
func TestUnusedConnectionsAtModeChange(t *testing.T) {
	longtest.Test(t)
	changes := scorecard.BySize(3, 60, 200)
	check := scorecard.Check(t, 10, scorecard.Size("changes from DISABLE to STRICT", changes), scorecard.Size("kinds of requests", len(echo.Kinds())))
	w := startWorld(t)
	if err := os.WriteFile(filepath.Join(w.dir, "config", "preconnect.yaml"), []byte(preconnect), 0o644); err != nil {
		t.Fatal(err)
	}
	s := startStage(t, w)
	logs := newEvidence(w)
	s.play(t, event{name: "preconnect", do: edit(func(*state) {}), seen: preconnectSeen})
	list := slices.DeleteFunc(events(), func(e event) bool {
		return !strings.HasSuffix(e.name, "STRICT to DISABLE") && e.name != "DISABLE to STRICT"
	})
	list = append(list, event{name: "STRICT", do: func(context.Context, *stage) error { return nil }, seen: requestsSent(2 * time.Second)})
	for range changes {
		for _, e := range list {
			s.play(t, e)
		}
	}
	check.Measured("changes from DISABLE to STRICT", len(s.took["DISABLE to STRICT"]))
	s.finish(t, logs, check, names(list)...)
}

// preconnectSeen waits until the client's clusters have the EnvoyFilter's policy.
func preconnectSeen(ctx context.Context, s *stage, _ time.Time) error {
	return eventually(ctx, func() error {
		text, err := admin(ctx, s.Workload("client").Node, "/config_dump?resource=dynamic_active_clusters&name_regex=outbound.*")
		if err == nil && !strings.Contains(text, "preconnect_policy") {
			err = errors.New("clusters have no preconnect policy")
		}
		return err
	})
}

// requestsSent returns a condition that holds after requests have been sent for d.
func requestsSent(d time.Duration) func(context.Context, *stage, time.Time) error {
	return func(ctx context.Context, _ *stage, _ time.Time) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
