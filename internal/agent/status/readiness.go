package status

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// probeTimeout bounds a readiness check.
const probeTimeout = 5 * time.Second

// Envoy is the part of Envoy's admin interface that readiness and metrics use.
type Envoy interface {
	// ServerState returns Envoy's state: LIVE, DRAINING, PRE_INITIALIZING or INITIALIZING.
	ServerState(ctx context.Context) (string, error)
	// Stats returns the counters and gauges whose names match the regular expression and that were
	// ever updated.
	Stats(ctx context.Context, filter string) (map[string]uint64, error)
	// Prometheus returns the statistics in Prometheus's text format, selected by the query of
	// Envoy's page /stats/prometheus; all if it is empty.
	Prometheus(ctx context.Context, query string) ([]byte, error)
}

// Statistics of Envoy's initialization. The gauge of its state is not used: it is set only when
// statistics are flushed, up to five seconds late.
const (
	cdsUpdates     = "cluster_manager.cds.update_success"
	ldsUpdates     = "listener_manager.lds.update_success"
	cdsRejects     = "cluster_manager.cds.update_rejected"
	ldsRejects     = "listener_manager.lds.update_rejected"
	workersStarted = "listener_manager.workers_started"
	statsFilter    = `^(cluster_manager\.cds|listener_manager\.lds)\.update_(success|rejected)$|` +
		`^listener_manager\.workers_started$`
)

const live = "LIVE"

// Readiness determines whether the proxy is ready for traffic: it has received its first clusters
// and listeners, has started its workers and is live, and is not draining. An Envoy that was once
// ready is not queried again. It is safe for concurrent use.
type Readiness struct {
	envoy      Envoy
	checkAgent func() error // checks the agent's own parts
	log        *slog.Logger

	mu        sync.Mutex
	draining  bool
	hasConfig bool // the first clusters and listeners were received
	// epoch is the hot restart epoch of the active Envoy. readyEpoch is the epoch of the last Envoy
	// that was ready, -1 if none was.
	epoch, readyEpoch int
	last              string // the last reason for not being ready, "" if ready
}

// NewReadiness returns a Readiness. agent returns an error while a part of the agent is not ready.
// If envoy is nil, only agent decides.
func NewReadiness(envoy Envoy, agent func() error, log *slog.Logger) *Readiness {
	return &Readiness{envoy: envoy, checkAgent: agent, log: log, readyEpoch: -1, last: "not checked yet"}
}

// StartDraining makes the proxy not ready permanently.
func (r *Readiness) StartDraining() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
}

// SetEpoch sets the hot restart epoch of the active Envoy (default 0). Another epoch than before
// makes Check query Envoy until that one is ready.
func (r *Readiness) SetEpoch(epoch int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch = epoch
}

// activeEpoch returns the epoch of the active Envoy, and reports whether that Envoy was ready at an
// earlier check.
func (r *Readiness) activeEpoch() (epoch int, wasReady bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.epoch, r.readyEpoch == r.epoch
}

// markReady records that the Envoy of an epoch was ready.
func (r *Readiness) markReady(epoch int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readyEpoch = epoch
}

// Check returns nil if the proxy is ready, and otherwise the reason, within probeTimeout. It logs a
// result that differs from the previous one, unless the caller canceled ctx.
func (r *Readiness) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := r.checkNow(ctx)
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if reason == r.last || errors.Is(ctx.Err(), context.Canceled) { // a client that gave up is not a result
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

// checkNow returns nil if the proxy is ready, and otherwise the first reason: draining, a part of
// the agent, or Envoy. Envoy is not checked if there is none, or if the active one was ready
// before: it stays live, but its admin interface does not respond while a large update is
// processed.
func (r *Readiness) checkNow(ctx context.Context) error {
	if r.isDraining() {
		return errors.New("draining")
	}
	if err := r.checkAgent(); err != nil {
		return err
	}
	epoch, wasReady := r.activeEpoch()
	if r.envoy == nil || wasReady {
		return nil
	}
	if err := r.checkEnvoy(ctx); err != nil {
		return err
	}
	r.markReady(epoch)
	return nil
}

// checkEnvoy returns an error if Envoy does not respond, has no configuration, is not live or has
// not started its workers, in this order.
func (r *Readiness) checkEnvoy(ctx context.Context) error {
	stats, err := r.envoy.Stats(ctx, statsFilter)
	if err != nil {
		return fmt.Errorf("envoy does not respond: %w", err)
	}
	if err := r.checkConfigured(stats); err != nil {
		return err
	}
	state, err := r.envoy.ServerState(ctx)
	if err != nil {
		return fmt.Errorf("envoy does not respond: %w", err)
	}
	if state != live {
		return fmt.Errorf("envoy is not live: its state is %s", state)
	}
	if stats[workersStarted] == 0 {
		return errors.New("envoy's workers have not started")
	}
	return nil
}

// isDraining reports whether StartDraining was called.
func (r *Readiness) isDraining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}

// checkConfigured returns an error until stats first count successful updates of both clusters and
// listeners. From then on it always returns nil, because the configuration stays in use if a later
// update is rejected.
func (r *Readiness) checkConfigured(stats map[string]uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hasConfig || stats[cdsUpdates] > 0 && stats[ldsUpdates] > 0 {
		r.hasConfig = true
		return nil
	}
	return fmt.Errorf("config not received from the control plane: "+
		"cds updates: %d successful, %d rejected; lds updates: %d successful, %d rejected",
		stats[cdsUpdates], stats[cdsRejects], stats[ldsUpdates], stats[ldsRejects])
}
