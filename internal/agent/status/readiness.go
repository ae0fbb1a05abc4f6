package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// probeTimeout bounds what a readiness probe waits for Envoy.
const probeTimeout = 5 * time.Second

// Envoy is what readiness and metrics ask of Envoy's admin interface.
type Envoy interface {
	// State gives Envoy's own word for how far it is: LIVE, DRAINING, PRE_INITIALIZING, INITIALIZING.
	State(ctx context.Context) (string, error)
	// Stats gives counters and gauges whose names match the regular expression and that were ever set.
	Stats(ctx context.Context, filter string) (map[string]uint64, error)
	// Prometheus gives all statistics in Prometheus's text format.
	Prometheus(ctx context.Context) ([]byte, error)
}

// The statistics that say how far Envoy is. There is a gauge for its state too, but it is only set when statistics are
// flushed, up to five seconds late.
const (
	cdsUpdates     = "cluster_manager.cds.update_success"
	ldsUpdates     = "listener_manager.lds.update_success"
	cdsRejects     = "cluster_manager.cds.update_rejected"
	ldsRejects     = "listener_manager.lds.update_rejected"
	workersStarted = "listener_manager.workers_started"
	statsFilter    = `^(cluster_manager\.cds|listener_manager\.lds)\.update_(success|rejected)$|^listener_manager\.workers_started$`
)

const live = "LIVE"

// Readiness is whether the proxy may be sent traffic: it has had its first clusters and listeners, has started its
// workers and is live, and the agent is not ending it. It may be used by several goroutines.
type Readiness struct {
	envoy Envoy
	agent func() error // what else must be ready
	log   *slog.Logger

	mu       sync.Mutex
	draining bool
	handover bool
	first    bool // clusters and listeners have come once
	last     string
}

// NewReadiness makes a Readiness that has not seen Envoy yet. Without an Envoy (nil) there is only the agent to wait for, whose
// own parts say what is not ready.
func NewReadiness(envoy Envoy, agent func() error, log *slog.Logger) *Readiness {
	return &Readiness{envoy: envoy, agent: agent, log: log, last: "not asked yet"}
}

// Drain makes the proxy not ready for good.
func (r *Readiness) Drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
}

// Handover says that one Envoy is being replaced by another: until it is done nobody can be asked, and the proxy is as ready
// as it was.
func (r *Readiness) Handover(underWay bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handover = underWay
}

// asBefore says whether Envoy is not to be asked, because another one was ready that serves still.
func (r *Readiness) asBefore() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.handover && r.last == ""
}

// Check gives nil if the proxy is ready, or else why it is not. It logs the answer if it is another than last time.
func (r *Readiness) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := r.check(ctx)
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if reason == r.last || errors.Is(ctx.Err(), context.Canceled) { // whoever asked went away: that says nothing of Envoy
		return err
	}
	r.last = reason
	if err == nil {
		r.log.Info("the proxy is ready")
	} else {
		r.log.Warn("the proxy is not ready: " + reason)
	}
	return err
}

func (r *Readiness) check(ctx context.Context) error {
	if r.isDraining() {
		return errors.New("draining")
	}
	if err := r.agent(); err != nil {
		return err
	}
	if r.envoy == nil || r.asBefore() {
		return nil
	}
	stats, err := r.envoy.Stats(ctx, statsFilter)
	if err != nil {
		return fmt.Errorf("envoy does not answer: %w", err)
	}
	if err := r.configured(stats); err != nil {
		return err
	}
	state, err := r.envoy.State(ctx)
	if err != nil {
		return fmt.Errorf("envoy does not answer: %w", err)
	}
	if state != live {
		return fmt.Errorf("envoy is not live: its state is %s", state)
	}
	if stats[workersStarted] == 0 {
		return errors.New("envoy's workers have not started")
	}
	return nil
}

func (r *Readiness) isDraining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}

// configured remembers that the first clusters and listeners came: a later rejection leaves what is there in use.
func (r *Readiness) configured(stats map[string]uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first || stats[cdsUpdates] > 0 && stats[ldsUpdates] > 0 {
		r.first = true
		return nil
	}
	return fmt.Errorf("config not received from the control plane: cds updates: %d successful, %d rejected; lds updates: %d successful, %d rejected",
		stats[cdsUpdates], stats[cdsRejects], stats[ldsUpdates], stats[ldsRejects])
}
