package leader

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/kube"
)

// Options configure Elections.
type Options struct {
	// Client accesses the Leases in Namespace, the control plane's namespace.
	Client    coordination.LeasesGetter
	Namespace string
	// Identity is unique to this replica: the pod's name. A replica that restarts with the same
	// identity resumes its Leases.
	Identity string
	// LeaseDuration is how long other replicas wait for a holder that does not renew (default 30 s,
	// as in Istio). A holder retries the renewal each quarter of it, and stops leading if none
	// succeeds for half of it.
	LeaseDuration time.Duration
	// OnChange, if set, is called when this replica starts a task and when the task has ended.
	OnChange func(task string, leading bool)
	Log      *slog.Logger
}

// Elections takes part in leader elections for any number of tasks.
type Elections struct {
	options Options
	lock    func(task string) resourcelock.Interface
}

// New returns Elections. By default LeaseDuration is 30 s, and nothing is called or logged. It
// sends no request.
func New(o Options) *Elections {
	if o.LeaseDuration <= 0 {
		o.LeaseDuration = 30 * time.Second
	}
	if o.OnChange == nil {
		o.OnChange = func(string, bool) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	e := &Elections{options: o}
	e.lock = func(task string) resourcelock.Interface {
		return &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: task}, Client: o.Client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
		}
	}
	return e
}

// Run calls do whenever this replica becomes the leader of a task, until ctx ends; it returns an
// error only for invalid options. The context of do ends with the leadership; do must return soon
// after, and Run waits for it. If do returns earlier, it is not called again while this replica
// remains the leader. If do panics and ctx has a recovery.Recorder, it is called again with a
// backoff.
func (e *Elections) Run(ctx context.Context, task string, do func(context.Context)) error {
	run := func(ctx context.Context) {
		// The function returns no error.
		_ = recovery.Loop(ctx, "leader of "+task, func(ctx context.Context) error { do(ctx); return nil })
	}
	lease := &observedLock{Interface: e.lock(task), log: e.options.Log.With("task", task)}
	for ctx.Err() == nil {
		t := &term{lease: lease, e: e, task: task, do: run}
		if err := t.runElection(ctx); err != nil {
			return fmt.Errorf("elect a leader for %q: %w", task, err)
		}
	}
	return nil
}

// term is one cycle of waiting for the leadership, holding it and losing it.
type term struct {
	lease *observedLock
	e     *Elections
	task  string
	do    func(context.Context)

	tasks   sync.WaitGroup
	mu      sync.Mutex
	started bool
	ended   bool
}

// runElection takes part in one election. It returns when the leadership is lost or ctx ends, and
// only after the task has returned. Until then it renews the Lease; then it releases it, if this
// replica still holds it. It returns an error only for an invalid configuration.
func (t *term) runElection(ctx context.Context) error {
	o := t.e.options
	log := o.Log.With("task", t.task)
	electing, withdraw := context.WithCancel(kube.WithDebugLogging(context.WithoutCancel(ctx), log))
	defer withdraw()
	// ReleaseOnCancel is not used: the library would release the Lease before it ends the task.
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: t.lease, Name: t.task,
		LeaseDuration: o.LeaseDuration, RenewDeadline: o.LeaseDuration / 2, RetryPeriod: o.LeaseDuration / 4,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) { t.runTask(ctx, leading, log) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		t.mu.Lock()
		t.ended = true
		t.mu.Unlock()
		t.tasks.Wait()
		withdraw()
	})
	defer stop()
	elector.Run(electing)
	t.mu.Lock()
	t.ended = true // a task that has not started must not start now
	t.mu.Unlock()
	t.tasks.Wait()
	if elector.IsLeader() {
		releaseLease(electing, t.lease, log)
	}
	return nil
}

// releaseTimeout bounds the release of a Lease. If it fails, other replicas wait until the Lease
// expires.
const releaseTimeout = 5 * time.Second

// releaseLease releases a Lease if this replica holds it, so that others need not wait for its
// expiry. It works although ctx has ended, for at most releaseTimeout. Failures are logged.
func releaseLease(ctx context.Context, lock resourcelock.Interface, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	held, _, err := lock.Get(ctx)
	if err == nil && held.HolderIdentity == lock.Identity() {
		now := metav1.Now()
		err = lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions: held.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
		})
	}
	if err != nil {
		log.Warn("releasing the leader election lease failed; other replicas wait until it expires", "error", err)
	}
}

// runTask runs the task while this replica leads and ctx lasts, and returns after the task. It
// calls OnChange with true before it and with false after it. It does nothing if the term has ended
// or the task was started before.
func (t *term) runTask(ctx, leading context.Context, log *slog.Logger) {
	t.mu.Lock()
	if t.ended || t.started {
		t.mu.Unlock()
		return
	}
	t.started = true
	t.tasks.Add(1)
	t.mu.Unlock()
	defer t.tasks.Done()

	working, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(leading, stop)()
	log.Info("became leader, starting the task")
	t.e.options.OnChange(t.task, true)
	defer func() {
		t.e.options.OnChange(t.task, false)
		log.Info("stopped leading, the task has ended")
	}()
	t.do(working)
}
