package status

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
)

// logTo returns a logger that writes "level message" lines.
func logTo(out *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// TestReadinessOverALife follows the life of a proxy; the log has one line per change.
func TestReadinessOverALife(t *testing.T) {
	var log bytes.Buffer
	envoy := &fakeEnvoy{}
	r := NewReadiness(envoy, noParts, logTo(&log))
	steps := []struct {
		name  string
		epoch int
		state string
		stats map[string]uint64
		want  string // part of the reason, "" for ready
	}{
		{"not started", 0, "", nil, "envoy does not respond: connection refused"},
		{"nothing received", 0, "PRE_INITIALIZING", nil, "cds updates: 0 successful, 0 rejected; lds updates: 0 successful, 0 rejected"},
		{"rejected only", 0, "PRE_INITIALIZING", map[string]uint64{cdsRejects: 2, ldsRejects: 1}, "cds updates: 0 successful, 2 rejected; lds updates: 0 successful, 1 rejected"},
		{"clusters only", 0, "INITIALIZING", map[string]uint64{cdsUpdates: 1}, "cds updates: 1 successful, 0 rejected; lds updates: 0 successful"},
		{"all, but warming", 0, "INITIALIZING", map[string]uint64{cdsUpdates: 1, ldsUpdates: 1}, "envoy is not live: its state is INITIALIZING"},
		{"live without workers", 0, "LIVE", map[string]uint64{cdsUpdates: 1, ldsUpdates: 1, workersStarted: 0}, "envoy's workers have not started"},
		{"ready", 0, "LIVE", map[string]uint64{cdsUpdates: 1, ldsUpdates: 1, workersStarted: 1}, ""},
		{"a later rejection", 0, "LIVE", map[string]uint64{cdsUpdates: 1, ldsUpdates: 1, cdsRejects: 9, workersStarted: 1}, ""},
		{"statistics that were reset", 0, "LIVE", map[string]uint64{workersStarted: 1}, ""},
		{"too busy for the admin interface", 0, "", nil, ""},
		{"health check failed by hand", 0, "DRAINING", map[string]uint64{workersStarted: 1}, ""},
		{"next Envoy not started", 1, "", nil, "envoy does not respond: connection refused"},
		{"next Envoy warming", 1, "INITIALIZING", nil, "envoy is not live: its state is INITIALIZING"},
		{"next Envoy ready", 1, "LIVE", map[string]uint64{workersStarted: 1}, ""},
		{"next Envoy too busy", 1, "", nil, ""},
	}
	for _, step := range steps {
		r.SetEpoch(step.epoch)
		envoy.set(step.state, step.stats)
		for range 3 { // probes are periodic
			err := r.Check(t.Context())
			if step.want == "" && err != nil || step.want != "" && (err == nil || !strings.Contains(err.Error(), step.want)) {
				t.Errorf("%s: %v, want %q", step.name, err, step.want)
			}
		}
	}
	r.StartDraining()
	if err := r.Check(t.Context()); err == nil || err.Error() != "draining" {
		t.Errorf("while draining: %v", err)
	}
	want := `level=WARN msg="the proxy is not ready: envoy does not respond: connection refused"
level=WARN msg="the proxy is not ready: config not received from the control plane: cds updates: 0 successful, 0 rejected; lds updates: 0 successful, 0 rejected"
level=WARN msg="the proxy is not ready: config not received from the control plane: cds updates: 0 successful, 2 rejected; lds updates: 0 successful, 1 rejected"
level=WARN msg="the proxy is not ready: config not received from the control plane: cds updates: 1 successful, 0 rejected; lds updates: 0 successful, 0 rejected"
level=WARN msg="the proxy is not ready: envoy is not live: its state is INITIALIZING"
level=WARN msg="the proxy is not ready: envoy's workers have not started"
level=INFO msg="the proxy is ready"
level=WARN msg="the proxy is not ready: envoy does not respond: connection refused"
level=WARN msg="the proxy is not ready: envoy is not live: its state is INITIALIZING"
level=INFO msg="the proxy is ready"
level=WARN msg="the proxy is not ready: draining"
`
	if log.String() != want {
		t.Errorf("log is\n%s\nwant\n%s", log.String(), want)
	}
}

func TestReadinessWithoutEnvoy(t *testing.T) {
	r := NewReadiness(nil, noParts, slog.New(slog.DiscardHandler))
	if err := r.Check(t.Context()); err != nil {
		t.Errorf("not ready: %v", err)
	}
	r.StartDraining()
	if r.Check(t.Context()) == nil {
		t.Error("ready while it drains")
	}
}

// TestCancelledProbeIsNotLogged tests that a timeout of the kubelet is not logged as a change.
func TestCancelledProbeIsNotLogged(t *testing.T) {
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewReadiness(&fakeEnvoy{}, noParts, logTo(&log)).Check(ctx); err == nil {
		t.Error("ready")
	}
	if log.Len() > 0 {
		t.Errorf("log has %s", log.String())
	}
}

// noParts reports the agent's parts as ready.
func noParts() error { return nil }
