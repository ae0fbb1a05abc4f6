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

	"github.com/meshpilot/meshpilot/internal/kube"
)

// Options say where Leases are and who wants them.
type Options struct {
	// Client has the Leases of Namespace, which is the control plane's.
	Client    coordination.LeasesGetter
	Namespace string
	// Identity names this replica, and no other: the pod's name. A replica that restarts under its name takes up what it held.
	Identity string
	// LeaseDuration is how long others wait for a holder that does not renew; 0: 30 s, as in Istio. A holder gives up after half
	// of it, and tries to renew after each quarter.
	LeaseDuration time.Duration
	// Observe, if set, is told when this replica begins to do a task, and when it has ended.
	Observe func(task string, leading bool)
	Log     *slog.Logger
}

// Elections are those in which a replica stands. It may stand in several at the same time.
type Elections struct {
	options Options
	lock    func(task string) resourcelock.Interface
}

// New makes the Elections. It asks the API server nothing.
func New(o Options) *Elections {
	if o.LeaseDuration <= 0 {
		o.LeaseDuration = 30 * time.Second
	}
	if o.Observe == nil {
		o.Observe = func(string, bool) {}
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

// Run does a task whenever this replica is its leader, until the context ends. do is called anew each time, with a context that
// ends when the leadership does, and must return soon after. One that returns before has done its part: it is not called again
// while this replica stays the leader. The error is one of the options.
func (e *Elections) Run(ctx context.Context, task string, do func(context.Context)) error {
	lease := &reached{Interface: e.lock(task), log: e.options.Log.With("task", task)}
	for ctx.Err() == nil {
		t := &term{lease: lease, e: e, task: task, do: do}
		if err := t.run(ctx); err != nil {
			return fmt.Errorf("elect a leader for %q: %w", task, err)
		}
	}
	return nil
}

// term is one time of waiting for the leadership, having it, and losing it.
type term struct {
	lease *reached
	e     *Elections
	task  string
	do    func(context.Context)

	working sync.WaitGroup
	mu      sync.Mutex
	begun   bool
	over    bool
}

// run ends when the leadership is lost, or the context ends. The Lease is renewed until the work has ended.
func (t *term) run(ctx context.Context) error {
	o := t.e.options
	log := o.Log.With("task", t.task)
	electing, withdraw := context.WithCancel(kube.Quietly(context.WithoutCancel(ctx), log))
	defer withdraw()
	// The library would release the Lease (ReleaseOnCancel) before it tells the work to end.
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: t.lease, Name: t.task,
		LeaseDuration: o.LeaseDuration, RenewDeadline: o.LeaseDuration / 2, RetryPeriod: o.LeaseDuration / 4,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) { t.work(ctx, leading, log) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		t.mu.Lock()
		t.over = true
		t.mu.Unlock()
		t.working.Wait()
		withdraw()
	})
	defer stop()
	elector.Run(electing)
	t.mu.Lock()
	t.over = true // what has not begun by now does not begin any more
	t.mu.Unlock()
	t.working.Wait()
	if elector.IsLeader() {
		release(electing, t.lease, log)
	}
	return nil
}

// releaseTimeout bounds how long a Lease is tried to be given back. Without it the others wait until it has expired.
const releaseTimeout = 5 * time.Second

// release gives a Lease back, so that another replica need not wait until it has expired.
func release(ctx context.Context, lock resourcelock.Interface, log *slog.Logger) {
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
		log.Warn("the lease could not be released, and is left to expire", "error", err)
	}
}

// work does the task while this replica leads and the context lasts.
func (t *term) work(ctx, leading context.Context, log *slog.Logger) {
	t.mu.Lock()
	if t.over || t.begun {
		t.mu.Unlock()
		return
	}
	t.begun = true
	t.working.Add(1)
	t.mu.Unlock()
	defer t.working.Done()

	working, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(leading, stop)()
	log.Info("leading")
	t.e.options.Observe(t.task, true)
	defer func() {
		t.e.options.Observe(t.task, false)
		log.Info("not leading any more")
	}()
	t.do(working)
}
