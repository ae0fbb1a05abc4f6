package leader

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// observedLock is a resource lock that logs once when its Lease becomes unreachable, and once when
// it is reachable again. The library logs every failed attempt.
type observedLock struct {
	resourcelock.Interface
	log *slog.Logger

	mu          sync.Mutex
	unreachable bool
}

// Get returns the record of the Lease, and records whether the request failed.
func (r *observedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := r.Interface.Get(ctx)
	return record, raw, r.recordResult(ctx, err)
}

// Create creates the Lease, and records whether the request failed.
func (r *observedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return r.recordResult(ctx, r.Interface.Create(ctx, record))
}

// Update updates the Lease, and records whether the request failed.
func (r *observedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return r.recordResult(ctx, r.Interface.Update(ctx, record))
}

// recordResult logs a change of reachability and returns err unchanged. Errors that the API server
// answers (no Lease yet, or a conflict with another replica) mean that the Lease is reachable. An
// error after the cancellation of ctx is not recorded. Only the first of successive failures is
// logged.
func (r *observedLock) recordResult(ctx context.Context, err error) error {
	away := err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err)
	if away && errors.Is(ctx.Err(), context.Canceled) {
		return err // canceled by the caller
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case away && !r.unreachable:
		r.log.Warn(
			"leader election lease unreachable, retrying; leader-only tasks are paused",
			"lease", r.Describe(),
			"error", err,
		)
	case !away && r.unreachable:
		r.log.Info("leader election lease reachable again", "lease", r.Describe())
	}
	r.unreachable = away
	return err
}
