package repair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

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
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
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
	o, registry := DefaultOptions(), prometheus.NewRegistry()
	o.DeletePods, o.Node, o.Metrics, o.FieldSelector = true, "node", registry, "metadata.name!=not-selected"
	b.pod("not-selected", 126, true, true)
	b.run(o, later)
	b.eventually("the broken pod is deleted", b.checkDeleted("broken"))
	b.pod("second", 126, true, true)
	b.eventually("a pod that breaks later is deleted", b.checkDeleted("second"))
	for _, name := range []string{"of-nobody", "otherwise-broken", "not-injected", "not-selected"} {
		if b.checkDeleted(name)() == nil {
			t.Errorf("%s was deleted", name)
		}
	}
	b.eventually("an Event", b.checkEvent("broken", "DeleteBrokenPod", "its traffic is not captured: deleted"))
	b.eventually("the metric", func() error {
		got := repaired(t, registry)
		if got["delete success"] != 2 || got["delete skip"] == 0 || len(got) != 2 {
			return fmt.Errorf("counts %v", got)
		}
		return nil
	})
}

// repaired returns the counts of the metric by type and result.
func repaired(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "istio_cni_repair_pods_repaired_total" {
		t.Fatalf("metrics %v, error %v", families, err)
	}
	counts := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		counts[labels["type"]+" "+labels["result"]] = m.GetCounter().GetValue()
	}
	return counts
}

// checkEvent returns a check that a pod has an Event of a reason whose message ends as given.
func (b *bench) checkEvent(pod, reason, end string) func() error {
	return func() error {
		list, err := b.client.CoreV1().Events(b.namespace).List(b.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == reason && e.Type == corev1.EventTypeWarning && e.Source.Component == "cni-repair" && strings.HasSuffix(e.Message, end) {
				return nil
			}
		}
		return fmt.Errorf("Events %v", list.Items)
	}
}

// TestFailuresAreReported tests that a pod that may not be deleted gets an Event that says why.
func TestFailuresAreReported(t *testing.T) {
	client := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"}})
	ctx, cancel := context.WithCancel(t.Context())
	registry := prometheus.NewRegistry()
	r := &repairer{Options: DefaultOptions(), log: slog.New(slog.DiscardHandler), reporter: newReporter(ctx, client, registry)}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"}}
	if err := r.finish(pod, labeling, errors.New("forbidden"), r.log); err == nil {
		t.Error("the error is lost")
	}
	gone := apierrors.NewNotFound(corev1.Resource("pods"), "a")
	if err := r.finish(pod, deletion, gone, r.log); err != nil {
		t.Errorf("a pod that no longer exists: %v", err)
	}
	serving.Eventually(t, 15*time.Second, "an Event", func() error {
		list, err := client.CoreV1().Events("ns").List(t.Context(), metav1.ListOptions{})
		if err == nil && (len(list.Items) != 1 || list.Items[0].Reason != "LabelBrokenPod" || !strings.HasSuffix(list.Items[0].Message, "cannot label it: forbidden")) {
			err = fmt.Errorf("Events %v", list.Items)
		}
		return err
	})
	if got := repaired(t, registry); got["label fail"] != 1 || len(got) != 1 {
		t.Errorf("counts %v", got)
	}
	cancel()
	r.reporter.shutdown()
}

// TestPodsWithoutControllerAreLoggedOnce tests that each check of a broken pod without a controller
// is counted, but only the first one is logged, and the first one of a pod of the same name.
func TestPodsWithoutControllerAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	client, pods := fake.NewClientset(), cache.NewStore(cache.MetaNamespaceKeyFunc)
	ctx, cancel := context.WithCancel(t.Context())
	registry := prometheus.NewRegistry()
	r := &repairer{
		Options: DefaultOptions(), client: client, installedSince: later, log: slog.New(slog.NewTextHandler(&log, nil)),
		pods: pods, reporter: newReporter(ctx, client, registry), unowned: map[string]types.UID{},
	}
	defer r.reporter.shutdown()
	defer cancel()
	r.DeletePods = true
	check := func(uid types.UID) {
		t.Helper()
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns", UID: uid, Annotations: map[string]string{"sidecar.istio.io/status": "{}"}}}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
			Name: "istio-validation", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 126}},
		}}
		if err := errors.Join(pods.Add(p), r.repairPod(ctx, "ns/a")); err != nil {
			t.Fatal(err)
		}
	}
	for _, uid := range []types.UID{"1", "1", "2", "2", "2"} {
		check(uid)
	}
	if n := strings.Count(log.String(), "it has no controller"); n != 2 {
		t.Errorf("logged %d times, want 2:\n%s", n, log.String())
	}
	if got := repaired(t, registry); got["delete skip"] != 5 {
		t.Errorf("counts %v", got)
	}
	if err := errors.Join(pods.Replace(nil, ""), r.repairPod(ctx, "ns/a")); err != nil || len(r.unowned) > 0 {
		t.Errorf("after the end of the pod: %v, %v", r.unowned, err)
	}
}

func TestInvalidFieldSelector(t *testing.T) {
	o := DefaultOptions()
	o.FieldSelector = "status.phase"
	err := Run(t.Context(), o, fake.NewClientset(), later, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "--repair-field-selectors") {
		t.Errorf("error %v", err)
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
	b.eventually("an Event", b.checkEvent("broken", "LabelBrokenPod", "its traffic is not captured: labeled"))
	b.eventually("the label", func() error {
		p, err := b.client.CoreV1().Pods(b.namespace).Get(t.Context(), "broken", metav1.GetOptions{})
		if err == nil && p.Labels["cni.istio.io/uninitialized"] != "true" {
			err = fmt.Errorf("labels %v", p.Labels)
		}
		return err
	})
}

// TestBrokenStates checks which states of the validation container mark a pod as broken.
func TestBrokenStates(t *testing.T) {
	exited := func(status int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: status}}
	}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := func(code int32, message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}}
	}
	for _, test := range []struct {
		name       string
		change     func(*Options)
		now, last  corev1.ContainerState
		wantBroken bool
	}{
		{"failed", nil, exited(126), corev1.ContainerState{}, true},
		{"failed and waiting", nil, waiting, exited(126), true},
		{"failed and running again", nil, running, exited(126), false},
		{"failed and then succeeded", nil, exited(0), exited(126), false},
		{"failed twice", nil, exited(1), exited(126), true},
		{"failed otherwise", nil, waiting, exited(1), false},
		{"succeeded", nil, exited(0), corev1.ContainerState{}, false},
		{"any failure", func(o *Options) { o.ExitCode = 0 }, waiting, exited(1), true},
		{"success, with any failure", func(o *Options) { o.ExitCode = 0 }, waiting, exited(0), false},
		{"message", func(o *Options) { o.TerminationMessage = " no rules\n" }, waiting, ended(126, "no rules \n"), true},
		{"another message", func(o *Options) { o.TerminationMessage = "no rules" }, waiting, ended(126, "no"), false},
		{"another container", func(o *Options) { o.InitContainer = "other" }, waiting, exited(126), false},
		{"any container", func(o *Options) { o.InitContainer = "" }, waiting, exited(126), true},
		{"another annotation", func(o *Options) { o.Annotation = "other" }, waiting, exited(126), false},
		{"any pod", func(o *Options) { o.Annotation = "" }, waiting, exited(126), true},
	} {
		r := &repairer{Options: DefaultOptions()}
		if test.change != nil {
			test.change(&r.Options)
		}
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"sidecar.istio.io/status": "{}"}}}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
			Name: "istio-validation", State: test.now, LastTerminationState: test.last,
		}}
		if got := r.isBroken(p); got != test.wantBroken {
			t.Errorf("%s: broken %v, want %v", test.name, got, test.wantBroken)
		}
	}
}
