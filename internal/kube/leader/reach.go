package leader

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// reached is a lock that logs once when its Lease cannot be reached, and once when it can again. The library does so at each attempt.
type reached struct {
	resourcelock.Interface
	log *slog.Logger

	mu   sync.Mutex
	away bool
}

// Get reads the Lease.
func (r *reached) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := r.Interface.Get(ctx)
	return record, raw, r.note(ctx, err)
}

// Create makes the Lease.
func (r *reached) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return r.note(ctx, r.Interface.Create(ctx, record))
}

// Update writes the Lease.
func (r *reached) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return r.note(ctx, r.Interface.Update(ctx, record))
}

// note takes note of what became of a request, and gives its error. That there is no Lease yet, or that another replica was faster, is an
// answer, too.
func (r *reached) note(ctx context.Context, err error) error {
	away := err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err)
	if away && errors.Is(ctx.Err(), context.Canceled) {
		return err // the end, and not the API server's fault
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case away && !r.away:
		r.log.Warn("the lease cannot be reached, and is tried again; what its leader does rests", "lease", r.Describe(), "error", err)
	case !away && r.away:
		r.log.Info("the lease can be reached again", "lease", r.Describe())
	}
	r.away = away
	return err
}
