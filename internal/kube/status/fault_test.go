package status

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// Two replicas permanently believe that they lead, and are killed at any moment: nothing is written
// twice.
func TestWritesAreNeverDoubled(t *testing.T) {
	l := newLab(t)
	seen := l.journal()
	var replicas [2]*replica
	stop := make(chan struct{})
	var killers sync.WaitGroup
	for i := range replicas {
		r := l.replica(fmt.Sprint("pilot-", i), Limits{Interval: 20 * time.Millisecond})
		r.everyone = Count{2, 2}
		r.skew = time.Duration(i) * time.Hour // so that replicas never write the same timestamp by chance
		replicas[i] = r
		killers.Go(func() {
			for {
				ctx, kill := context.WithTimeout(
					context.Background(),
					time.Duration(50+rand.IntN(500))*time.Millisecond,
				)
				r.w.Lead(ctx)
				kill()
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	defer killers.Wait()
	defer close(stop)
	const objects = 15
	rounds := longtest.Rounds(3, 10)
	for round := range rounds {
		var list []*unstructured.Unstructured
		for i := range objects {
			list = append(list, l.virtualService(fmt.Sprint("vs-", i), fmt.Sprint(round+1, "s")))
		}
		for _, r := range replicas {
			r.sees(list...)
		}
		for _, vs := range list {
			l.eventually(func() bool {
				got := l.get(vs)
				g, _, _ := unstructured.NestedInt64(got.Object, "status", "observedGeneration")
				return g == int64(round+1) && said(got) == "True UpToDate: 2/2 proxies up to date."
			}, func() string { return vs.GetName() + " says " + said(l.get(vs)) })
		}
	}
	for i := range objects {
		name := fmt.Sprint("vs-", i)
		l.eventually(
			func() bool { return seen.count(name) >= 2*rounds },
			func() string { return "the watch is behind" },
		)
		if n := seen.count(name); n != 2*rounds {
			t.Errorf("%s has %d versions, want %d edits and as many writes of its status", name, n, rounds)
		}
	}
}

func TestOutageOfTheAPIServer(t *testing.T) {
	longtest.Test(t)
	l := newLab(t)
	c := shared.Start(t)
	vs := l.virtualService("reviews", "1s")
	r := l.replica("a", Limits{Interval: 50 * time.Millisecond})
	r.everyone = Count{1, 1}
	r.sees(vs)
	goes(t, r.w.Lead)
	goes(t, r.w.Run)
	l.waitFor(vs, "True UpToDate: 1/1 proxies up to date.")
	c.StopAPIServer()
	r.set(func() {
		r.problems = []config.Problem{
			{Key: keyOf(vs), Field: "spec.hosts[0]", Reason: "is away", Severity: config.Error},
		}
	})
	sleepContext(t.Context(), time.Second) // tries that fail
	if err := c.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.waitFor(vs, "False PartlyInvalid: spec.hosts[0]: is away")
}

func TestManyObjectsAtOnceKeepToTheRate(t *testing.T) {
	longtest.Test(t)
	l := newLab(t)
	seen := l.journal()
	const objects, qps, burst = 500, 300, 50
	r := l.replica("a", Limits{QPS: qps, Burst: burst, Workers: 8})
	r.everyone = Count{1, 1}
	goes(t, r.w.Lead)
	list := make([]*unstructured.Unstructured, objects)
	var making errgroup.Group
	making.SetLimit(8)
	for i := range list {
		making.Go(func() (err error) {
			list[i], err = l.tryApply(virtualService(fmt.Sprint("vs-", i), "1s"))
			return err
		})
	}
	if err := making.Wait(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r.sees(list...)
	for _, vs := range list {
		l.eventually(
			func() bool { return seen.count(vs.GetName()) == 2 },
			func() string {
				return fmt.Sprintf("%s has %d versions, want 2; it says %q",
					vs.GetName(), seen.count(vs.GetName()), said(l.get(vs)))
			},
		)
	}
	took := time.Since(began)
	if least := time.Duration(objects-burst) * time.Second / qps; took < least*9/10 {
		t.Errorf("took %v for %d objects, want at least %v", took, objects, least)
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for i, at := range seen.times {
		n := 0
		for _, later := range seen.times[i:] {
			if later.Sub(at) < time.Second {
				n++
			}
		}
		if n > (qps+burst)*5/4 {
			t.Fatalf("%d writes within a second", n)
		}
	}
}

func TestLeaderAddsCountsOfReplicas(t *testing.T) {
	l := newLab(t)
	a, b := l.replica("a", Limits{}), l.replica("b", Limits{})
	a.everyone, b.everyone = Count{2, 2}, Count{3, 1}
	goes(t, a.w.Lead)
	stopB := goes(t, b.w.Run)
	l.eventually(func() bool {
		_, err := l.kubernetes.CoreV1().ConfigMaps(l.system).Get(t.Context(), "b-distribution", metav1.GetOptions{})
		return err == nil
	}, func() string { return "b does not report itself" })
	vs := l.virtualService("reviews", "1s")
	a.sees(vs)
	b.sees(vs)
	l.waitFor(vs, "Unknown Distributing: 3/5 proxies up to date.")
	b.set(func() { b.everyone = Count{3, 3} })
	l.waitFor(vs, "True UpToDate: 5/5 proxies up to date.")

	t.Log("A proxy that disconnects is not waited for.")
	b.set(func() { b.everyone = Count{3, 1} })
	vs = l.virtualService("reviews", "2s")
	a.sees(vs)
	b.sees(vs)
	l.waitFor(vs, "Unknown Distributing: 3/5 proxies up to date.")
	stopB()
	l.waitFor(vs, "True UpToDate: 2/2 proxies up to date.")
	maps, err := l.kubernetes.CoreV1().ConfigMaps(l.system).List(
		t.Context(),
		metav1.ListOptions{LabelSelector: reportLabel},
	)
	if err != nil || len(maps.Items) != 0 {
		t.Errorf("%d reports stay, error %v", len(maps.Items), err)
	}
}

// TestReportIsDeletedWithItsPod shows that the pod owns the report: if a whole control plane is
// uninstalled at once, no leader remains to delete it, and its replicas may have lost the
// permission before they end.
func TestReportIsDeletedWithItsPod(t *testing.T) {
	l := newLab(t)
	pod, err := l.kubernetes.CoreV1().Pods(l.system).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "b",
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "discovery", Image: "pilot"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b := l.replica("b", Limits{})
	goes(t, b.w.Run)
	var owners []metav1.OwnerReference
	l.eventually(func() bool {
		report, err := l.kubernetes.CoreV1().ConfigMaps(l.system).Get(
			t.Context(),
			"b-distribution",
			metav1.GetOptions{},
		)
		if err == nil {
			owners = report.OwnerReferences
		}
		return err == nil
	}, func() string { return "b does not report itself" })
	want := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "b", UID: pod.UID}}
	if diff := cmp.Diff(want, owners); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}
