package leader

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

var shared = cluster.NewShared(cluster.Options{})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

// stage is where replicas do a task, and counts them.
type stage struct {
	doing atomic.Int32
	times atomic.Int32
	more  atomic.Bool // more than one did it at the same time
}

func (s *stage) do(ctx context.Context) {
	if s.doing.Add(1) > 1 {
		s.more.Store(true)
	}
	s.times.Add(1)
	<-ctx.Done()
	s.doing.Add(-1)
}

// goes runs elections in the background, and returns a function that stops them and waits.
func goes(t *testing.T, e *Elections, task string, do func(context.Context)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := e.Run(ctx, task, do); err != nil {
			t.Error(err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

func newElections(t *testing.T, c kubernetes.Interface, namespace, name string) *Elections {
	t.Helper()
	return New(
		Options{Client: c.CoordinationV1(), Namespace: namespace, Identity: name, LeaseDuration: 2 * time.Second},
	)
}

func TestOneOfThreeReplicas(t *testing.T) {
	longtest.Test(t) // the API server takes seconds to start
	c := shared.Start(t)
	client, namespace := c.Client(t), c.Namespace(t, "system", nil)
	var s stage
	var stops []func()
	for i := range 3 {
		stops = append(stops, goes(t, newElections(t, client, namespace, fmt.Sprint("pilot-", i)), Status, s.do))
	}
	other := stage{}
	goes(t, newElections(t, client, namespace, "pilot-9"), Ingress, other.do)
	for i := range stops {
		serving.Until(
			t,
			20*time.Second,
			"one leads",
			func() bool { return s.doing.Load() == 1 && s.times.Load() == int32(i+1) },
		)
		holder := ""
		lease, err := client.CoordinationV1().Leases(namespace).Get(t.Context(), Status, metav1.GetOptions{})
		if err == nil && lease.Spec.HolderIdentity != nil {
			holder = *lease.Spec.HolderIdentity
		}
		if err != nil || holder == "" {
			t.Fatalf("the lease is held by %q, error %v", holder, err)
		}
		began := time.Now()
		stops[int(holder[len(holder)-1]-'0')]()
		if i < 2 {
			serving.Until(t, 20*time.Second, "another takes over", func() bool { return s.doing.Load() == 1 })
			if took := time.Since(began); took > 1900*time.Millisecond {
				t.Errorf(
					"took over after %v from a replica that released the lease, not sooner than from one that did not",
					took)
			}
		}
	}
	if s.more.Load() {
		t.Error("two replicas did it at the same time")
	}
	lease, err := client.CoordinationV1().Leases(namespace).Get(t.Context(), Status, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		t.Errorf("the lease is not given back: %+v, error %v", lease.Spec, err)
	}
	if other.doing.Load() != 1 {
		t.Error("another task has no leader")
	}
}

func TestLeaderThatCannotRenewStops(t *testing.T) {
	longtest.Test(t) // the API server takes seconds to start
	c := shared.Start(t)
	client, namespace := c.Client(t), c.Namespace(t, "system", nil)
	var s stage
	var log serving.Log
	e := newElections(t, client, namespace, "pilot-0")
	e.options.Log = slog.New(slog.NewTextHandler(&log, nil))
	goes(t, e, Status, s.do)
	serving.Until(t, 20*time.Second, "one leads", func() bool { return s.doing.Load() == 1 })
	c.PauseAPIServer()
	serving.Until(t, 20*time.Second, "it leads no more", func() bool { return s.doing.Load() == 0 })
	c.ResumeAPIServer()
	serving.Until(
		t,
		20*time.Second,
		"it leads again",
		func() bool { return s.doing.Load() == 1 && s.times.Load() == 2 },
	)
	if text := log.String(); strings.Count(text, "lease unreachable") != 1 ||
		strings.Count(text, "lease reachable again") != 1 ||
		strings.Contains(text, "level=ERROR") {
		t.Errorf("want one log line for the outage and one for its end; the log is\n%s", text)
	}
}

// F15: nothing stays of a leadership that was lost.
func TestManyTerms(t *testing.T) {
	l := &memoryLease{}
	var s stage
	elections := func(name string) *Elections {
		e := New(Options{Identity: name, LeaseDuration: 40 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
		e.lock = func(string) resourcelock.Interface { return &memoryLock{l, name, nil} }
		return e
	}
	terms := scorecard.BySize(longtest.Rounds(200, 1000), 2000, 5000)
	check := scorecard.Check(t, 29, scorecard.Size("terms of three replicas", terms))
	before := 0
	for i := range terms {
		stop := goes(t, elections(fmt.Sprint("pilot-", i%3)), Status, s.do)
		serving.Until(t, 20*time.Second, "one leads", func() bool { return s.doing.Load() == 1 })
		stop()
		if s.doing.Load() != 0 {
			t.Fatal("the election continues after it was stopped")
		}
		if i == 20 {
			before = runtime.NumGoroutine()
		}
	}
	now := runtime.NumGoroutine()
	check.Measured("terms", int(s.times.Load()))
	check.Measured("goroutines after 20 terms", before)
	check.Measured("goroutines at the end", now)
	check.Measured("two leaders at once", s.more.Load())
	if now > before+5 {
		t.Errorf("%d goroutines after %d terms, %d after 20", now, terms, before)
	}
	if s.more.Load() || int(s.times.Load()) != terms {
		t.Errorf("done %d times, twice at once: %v", s.times.Load(), s.more.Load())
	}
}

// TestManyTermsOnAnAPIServer: the leader of three replicas steps down repeatedly, with a real
// Lease. There are never two leaders, and no goroutine or holder remains of a term.
func TestManyTermsOnAnAPIServer(t *testing.T) {
	terms := scorecard.BySize(10, 200, 1000)
	check := scorecard.Check(t, 29, scorecard.Size("terms of three replicas", terms))
	longtest.Test(t)
	c := shared.Start(t)
	client, namespace := c.Client(t), c.Namespace(t, "system", nil)
	var s stage
	stops := make([]func(), 3)
	begin := func(i int) {
		stops[i] = goes(t, newElections(t, client, namespace, fmt.Sprint("pilot-", i)), Status, s.do)
	}
	for i := range stops {
		begin(i)
	}
	holder := func() (i int) {
		serving.Until(t, 20*time.Second, "one leads", func() bool {
			lease, err := client.CoordinationV1().Leases(namespace).Get(t.Context(), Status, metav1.GetOptions{})
			if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
				return false
			}
			i = int((*lease.Spec.HolderIdentity)[len("pilot-")] - '0')
			return s.doing.Load() == 1
		})
		return i
	}
	var before, after processState
	for term := range terms {
		if term == 3 {
			before = measureProcess(t)
		}
		i := holder()
		stops[i]()
		begin(i)
	}
	holder()
	after = measureProcess(t)
	check.Measured("terms", int(s.times.Load()))
	check.Measured("goroutines after 3 terms", before.goroutines)
	check.Measured("goroutines at the end", after.goroutines)
	check.Measured("files after 3 terms", before.files)
	check.Measured("files at the end", after.files)
	check.Measured("two leaders at once", s.more.Load())
	if after.goroutines > before.goroutines+5 || after.files > before.files+2 {
		t.Errorf("after %d terms %+v, after 3 %+v", terms, after, before)
	}
	if s.more.Load() || int(s.times.Load()) <= terms {
		t.Errorf("%d terms, want more than %d; two leaders at once: %v", s.times.Load(), terms, s.more.Load())
	}
}

// processState is the number of goroutines and descriptors of this process.
type processState struct{ goroutines, files int }

func measureProcess(t *testing.T) processState {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return processState{runtime.NumGoroutine(), len(files)}
}

// The work ends before another replica becomes the leader, however long it takes.
func TestLeaseIsHeldUntilTheWorkHasEnded(t *testing.T) {
	l := &memoryLease{}
	e := New(Options{Identity: "pilot-0", LeaseDuration: 80 * time.Millisecond})
	e.lock = func(string) resourcelock.Interface { return &memoryLock{l, "pilot-0", nil} }
	begun, finish := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = e.Run(ctx, Status, func(context.Context) { close(begun); <-finish })
	}()
	<-begun
	cancel()
	time.Sleep(200 * time.Millisecond) // more than a Lease lasts
	if r := l.holder(); r != "pilot-0" {
		t.Errorf("the lease is held by %q while the work continues", r)
	}
	close(finish)
	<-done
	if r := l.holder(); r != "" {
		t.Errorf("held by %q after the end", r)
	}
}

// memoryLease is a Lease in memory with the semantics of an API server.
type memoryLease struct {
	mu      sync.Mutex
	record  *resourcelock.LeaderElectionRecord
	version int
}

func (l *memoryLease) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.record == nil {
		return ""
	}
	return l.record.HolderIdentity
}

type memoryLock struct {
	lease *memoryLease
	name  string
	seen  *int
}

func (m *memoryLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	m.lease.mu.Lock()
	defer m.lease.mu.Unlock()
	if m.lease.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{}, "lease")
	}
	r, v := *m.lease.record, m.lease.version
	m.seen = &v
	raw, err := json.Marshal(r)
	return &r, raw, err
}

func (m *memoryLock) Create(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	return m.set(r, 0)
}

func (m *memoryLock) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if m.seen == nil {
		return fmt.Errorf("not read yet")
	}
	return m.set(r, *m.seen)
}

func (m *memoryLock) set(r resourcelock.LeaderElectionRecord, version int) error {
	m.lease.mu.Lock()
	defer m.lease.mu.Unlock()
	if m.lease.version != version {
		return apierrors.NewConflict(schema.GroupResource{}, "lease", nil)
	}
	m.lease.version++
	m.lease.record = &r
	v := m.lease.version
	m.seen = &v
	return nil
}

func (m *memoryLock) RecordEvent(string) {}
func (m *memoryLock) Identity() string   { return m.name }
func (m *memoryLock) Describe() string   { return "memory" }
