package repair

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

var shared = cluster.NewShared(cluster.Options{})

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

// bench is a namespace with pods, and a repairer with the permissions of the chart.
type bench struct {
	t         *testing.T
	c         *cluster.Cluster
	client    *kubernetes.Clientset
	namespace string
}

func newBench(t *testing.T) *bench {
	c := shared.Start(t)
	return &bench{t: t, c: c, client: c.Client(t), namespace: c.Namespace(t, "repair", nil)}
}

// pod creates a pod whose validation container has exited with a status; owned ones have a
// controller.
func (b *bench) pod(name string, exitCode int32, owned, injected bool) {
	b.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			NodeName: "node", InitContainers: []corev1.Container{{Name: "istio-validation", Image: "x"}}, Containers: []corev1.Container{{Name: "app", Image: "x"}},
			TerminationGracePeriodSeconds: new(int64(0)),
		},
	}
	if owned {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "x", UID: "x", Controller: new(true)}}
	}
	if injected {
		p.Annotations["sidecar.istio.io/status"] = "{}"
	}
	pods := b.client.CoreV1().Pods(b.namespace)
	p, err := pods.Create(b.t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: "istio-validation", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode}},
	}}
	if _, err := pods.UpdateStatus(b.t.Context(), p, metav1.UpdateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// run repairs until the test ends.
func (b *bench) run(o Options, since func() (time.Time, bool)) {
	b.t.Helper()
	verbs := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
	}
	config := b.c.ServiceAccountConfig(b.t, b.namespace, "istio-cni")
	b.c.Grant(b.t, cluster.ServiceAccount(b.namespace, "istio-cni"), verbs...)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o, client, since, slog.New(slog.NewTextHandler(b.t.Output(), nil))) }()
	b.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	})
}

func (b *bench) eventually(what string, check func() error) {
	b.t.Helper()
	serving.Eventually(b.t, 15*time.Second, what, check)
}

func (b *bench) checkDeleted(name string) func() error {
	return func() error {
		_, err := b.client.CoreV1().Pods(b.namespace).Get(b.t.Context(), name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return errors.New("it still exists")
		}
		return err
	}
}

// later returns a time after the creation of all pods of a test.
func later() (time.Time, bool) { return time.Now().Add(time.Hour), true }

func TestBrokenPodsAreDeleted(t *testing.T) {
	b := newBench(t)
	b.pod("broken", 126, true, true)
	b.pod("of-nobody", 126, false, true)
	b.pod("otherwise-broken", 1, true, true)
	b.pod("not-injected", 126, true, false)
	o := DefaultOptions()
	o.DeletePods, o.Node = true, "node"
	b.run(o, later)
	b.eventually("the broken pod is deleted", b.checkDeleted("broken"))
	b.pod("second", 126, true, true)
	b.eventually("a pod that breaks later is deleted", b.checkDeleted("second"))
	for _, name := range []string{"of-nobody", "otherwise-broken", "not-injected"} {
		if b.checkDeleted(name)() == nil {
			t.Errorf("%s was deleted", name)
		}
	}
}

// TestPodsThatThePluginHasSeen tests that pods younger than the installation, and those of a node
// without plugin, are not touched: a new pod would be no better.
func TestPodsThatThePluginHasSeen(t *testing.T) {
	for name, since := range map[string]func() (time.Time, bool){
		"younger than the plugin": func() (time.Time, bool) { return time.Now().Add(-time.Hour), true },
		"no plugin":               func() (time.Time, bool) { return time.Time{}, false },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.pod("broken", 126, true, true)
			looked := make(chan struct{}, 100)
			o := DefaultOptions()
			o.DeletePods = true
			b.run(o, func() (time.Time, bool) {
				select {
				case looked <- struct{}{}:
				default:
				}
				return since()
			})
			<-looked
			b.pod("another", 126, true, true) // when this was handled, the first one was too
			<-looked
			if b.checkDeleted("broken")() == nil {
				t.Error("it was deleted")
			}
		})
	}
}

func TestBrokenPodsAreLabelled(t *testing.T) {
	b := newBench(t)
	b.pod("broken", 126, false, true)
	o := DefaultOptions()
	o.LabelPods = true
	b.run(o, later)
	b.eventually("the label", func() error {
		p, err := b.client.CoreV1().Pods(b.namespace).Get(t.Context(), "broken", metav1.GetOptions{})
		if err == nil && p.Labels["cni.istio.io/uninitialized"] != "true" {
			err = fmt.Errorf("labels %v", p.Labels)
		}
		return err
	})
}

// TestBrokenStates checks which states of the validation container are those of a broken pod.
func TestBrokenStates(t *testing.T) {
	exited := func(status int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: status}}
	}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	r := &repairer{Options: DefaultOptions()}
	for _, test := range []struct {
		name       string
		now, last  corev1.ContainerState
		wantBroken bool
	}{
		{"failed", exited(126), corev1.ContainerState{}, true},
		{"failed and waiting", waiting, exited(126), true},
		{"failed and running again", running, exited(126), false},
		{"failed and then succeeded", exited(0), exited(126), false},
		{"failed twice", exited(1), exited(126), true},
		{"succeeded", exited(0), corev1.ContainerState{}, false},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{r.Annotation: "{}"}}}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
			Name: r.InitContainer, State: test.now, LastTerminationState: test.last,
		}}
		if got := r.isBroken(p); got != test.wantBroken {
			t.Errorf("%s: broken %v, want %v", test.name, got, test.wantBroken)
		}
	}
}
