package status

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/cluster"
)

var shared = cluster.NewShared(cluster.Options{GatewayAPI: cluster.Standard, IstioKinds: true})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

// lab is a namespace of a real API server, and the state that a control plane observes in it.
type lab struct {
	*testing.T
	dynamic    dynamic.Interface
	kubernetes kubernetes.Interface
	namespace  string
	system     string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	c := shared.Start(t)
	client, err := kube.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.HTTP.CloseIdleConnections)
	return &lab{
		T:          t,
		dynamic:    client.Dynamic,
		kubernetes: client.Kubernetes,
		namespace:  c.Namespace(t, "shop", nil),
		system:     c.Namespace(t, "system", nil),
	}
}

// replica is one control plane with applied objects and counts set by the test.
type replica struct {
	*lab
	pod  string
	book *AppliedObjects
	w    *Writer

	mu       sync.Mutex
	inUse    map[config.Key]*config.Config
	problems []config.Problem
	refusals []config.Problem
	counts   map[config.Key]Count
	everyone Count // result for objects that are not in counts
	version  uint64
	skew     time.Duration
	log      bytes.Buffer
}

func (l *lab) replica(pod string, limits Limits) *replica {
	limits.Interval = cmp.Or(limits.Interval, 50*time.Millisecond)
	r := &replica{
		lab:    l,
		pod:    pod,
		book:   NewAppliedObjects("", nil),
		inUse:  map[config.Key]*config.Config{},
		counts: map[config.Key]Count{},
	}
	r.w = New(Options{
		Inputs: Inputs{
			Applied: r.book,
			InUse:   func(k config.Key) *config.Config { r.mu.Lock(); defer r.mu.Unlock(); return r.inUse[k] },
			Problems: func() (uint64, []config.Problem) {
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.version, r.problems
			},
			Refusals: func() []config.Problem { r.mu.Lock(); defer r.mu.Unlock(); return r.refusals },
			Distribution: func(keys map[config.Key]struct{}) (uint64, map[config.Key]Count) {
				r.mu.Lock()
				defer r.mu.Unlock()
				out := maps.Clone(r.counts)
				for k := range keys {
					if _, ok := out[k]; !ok {
						out[k] = r.everyone
					}
				}
				return r.version, out
			},
		},
		Dynamic: l.dynamic, Kubernetes: l.kubernetes, Namespace: l.system, Pod: pod, Limits: limits,
		Log: slog.New(slog.NewTextHandler(writer{r}, nil)), Timing: quick,
		Now: func() time.Time { r.mu.Lock(); defer r.mu.Unlock(); return time.Now().Add(r.skew) },
	})
	r.publish()
	return r
}

// quick has short intervals for tests.
var quick = Timing{
	SettleDelay:       300 * time.Millisecond,
	CountInterval:     100 * time.Millisecond,
	SlowCountInterval: time.Second,
	SlowAfter:         10 * time.Second,
	ProgressInterval:  200 * time.Millisecond,
	ReportTimeout:     700 * time.Millisecond,
	ReportInterval:    300 * time.Millisecond,
	FirstReportDelay:  100 * time.Millisecond,
	RetryDelay:        500 * time.Millisecond,
}

type writer struct{ r *replica }

func (w writer) Write(b []byte) (int, error) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	return w.r.log.Write(b)
}

func (r *replica) set(f func()) {
	r.mu.Lock()
	f()
	r.mu.Unlock()
	r.book.Notify()
}

// publish builds a new snapshot from the observed objects.
func (r *replica) publish() {
	r.mu.Lock()
	r.version++
	version := r.version
	r.mu.Unlock()
	r.book.RecordSnapshot(version, everything{})
}

// sees records objects as applied at their current version.
func (r *replica) sees(list ...*unstructured.Unstructured) {
	var batch mesh.Batch
	r.mu.Lock()
	for _, u := range list {
		k := keyOf(u)
		c := &config.Config{Meta: config.Meta{Key: k, Generation: u.GetGeneration()}, Hash: uint64(u.GetGeneration())}
		batch = append(batch, mesh.Event{Config: c})
		r.inUse[k] = c
	}
	r.mu.Unlock()
	r.book.RecordBatch(batch)
	r.publish()
}

// refuses records an object as rejected.
func (r *replica) refuses(u *unstructured.Unstructured, field, reason string) {
	p := config.Problem{Key: keyOf(u), Field: field, Reason: reason, Severity: config.Error}
	r.mu.Lock()
	r.problems = append(r.problems, p)
	delete(r.inUse, p.Key)
	r.mu.Unlock()
	r.book.RecordBatch(
		mesh.Batch{
			{Problems: &mesh.Problems{Scope: p.Key.String(), List: []config.Problem{p}, Generation: u.GetGeneration()}},
		},
	)
	r.publish()
}

func keyOf(u *unstructured.Unstructured) config.Key {
	return config.Key{Kind: api.Kind(u.GetKind()), Namespace: u.GetNamespace(), Name: u.GetName()}
}

// goes runs a function in a goroutine, and returns a function that stops it and waits.
func goes(t *testing.T, run func(context.Context)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); run(ctx) }()
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); <-done }) }
	t.Cleanup(stop)
	return stop
}

// apply makes or changes an object as kubectl does. It fails the test on an error.
func (l *lab) apply(manifest string) *unstructured.Unstructured {
	l.Helper()
	u, err := l.tryApply(manifest)
	if err != nil {
		l.Fatal(err)
	}
	return u
}

// tryApply makes or changes an object as kubectl does. It may be called on any goroutine.
func (l *lab) tryApply(manifest string) (*unstructured.Unstructured, error) {
	var o map[string]any
	if err := yaml.Unmarshal([]byte(manifest), &o); err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: o}
	if u.GetNamespace() == "" {
		u.SetNamespace(l.namespace)
	}
	r, err := resourceOf(api.Kind(u.GetKind()))
	if err != nil {
		return nil, err
	}
	objects := l.dynamic.Resource(r).Namespace(u.GetNamespace())
	return objects.Apply(l.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "kubectl", Force: true})
}

func (l *lab) virtualService(name, timeout string) *unstructured.Unstructured {
	l.Helper()
	return l.apply(virtualService(name, timeout))
}

// virtualService returns the manifest of a VirtualService.
func virtualService(name, timeout string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %s}
spec:
  hosts: [reviews]
  http: [{timeout: %s, route: [{destination: {host: reviews}}]}]
`, name, timeout)
}

func (l *lab) get(u *unstructured.Unstructured) *unstructured.Unstructured {
	l.Helper()
	r, _ := resourceOf(api.Kind(u.GetKind()))
	got, err := l.dynamic.Resource(r).Namespace(u.GetNamespace()).Get(l.Context(), u.GetName(), metav1.GetOptions{})
	if err != nil {
		l.Fatal(err)
	}
	return got
}

// writeStatus patches a status as another program does.
func (l *lab) writeStatus(u *unstructured.Unstructured, patch string) {
	l.Helper()
	r, _ := resourceOf(api.Kind(u.GetKind()))
	_, err := l.dynamic.Resource(r).Namespace(u.GetNamespace()).Patch(l.Context(), u.GetName(),
		types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "another"}, "status")
	if err != nil {
		l.Fatal(err)
	}
}

// waitFor waits until the condition of an object has the given text, such as "True UpToDate: 1/1
// …".
func (l *lab) waitFor(u *unstructured.Unstructured, want string) {
	l.Helper()
	got := ""
	l.eventually(func() bool {
		got = said(l.get(u))
		return got == want
	}, func() string { return fmt.Sprintf("%s says %q, want %q", u.GetName(), got, want) })
}

func (l *lab) eventually(ok func() bool, else_ func() string) {
	l.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			l.Fatal(else_())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// said returns the condition Reconciled as one line.
func said(u *unstructured.Unstructured) string {
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	c := document(status).findCondition(Reconciled)
	if c == nil {
		return ""
	}
	return strings.TrimSpace(
		fmt.Sprintf("%s %s: %s", stringField(c, "status"), stringField(c, "reason"), stringField(c, "message")),
	)
}

// everything is a Delta of settings, which concern everything.
type everything struct{}

func (everything) Empty() bool         { return false }
func (everything) EndpointsOnly() bool { return false }

// resourceOf returns the resource of a kind in its newest version, or an error for unknown kinds.
func resourceOf(kind api.Kind) (schema.GroupVersionResource, error) {
	k, known := api.Info(kind)
	if !known {
		return schema.GroupVersionResource{}, fmt.Errorf("unknown kind %q", kind)
	}
	return schema.GroupVersionResource{Group: k.Group, Version: k.Versions[0], Resource: k.Plural}, nil
}
