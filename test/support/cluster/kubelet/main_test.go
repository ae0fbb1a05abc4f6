package kubelet_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

var shared = cluster.NewShared(cluster.Options{Tier: cluster.Node})

func TestMain(m *testing.M) { os.Exit(shared.Around(m).Run()) }

// patience is more than any condition here takes.
const patience = 30 * time.Second

// lab is a namespace of a cluster with a node.
type lab struct {
	*cluster.Cluster
	t         *testing.T
	namespace string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	longtest.Test(t)
	cluster.RequireNode(t)
	t.Parallel()
	c := shared.Start(t)
	l := &lab{c, t, c.Namespace(t, "pods", nil)}
	l.await("the service account", func() error {
		_, err := c.Client(t).CoreV1().ServiceAccounts(l.namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	return l
}

func (l *lab) await(what string, holds func() error) {
	l.t.Helper()
	serving.Eventually(l.t, patience, what, holds)
}

// apply makes objects in the namespace.
func (l *lab) apply(documents string) {
	l.t.Helper()
	if err := l.Apply(l.t.Context(), strings.ReplaceAll(documents, "metadata: {", "metadata: {namespace: "+l.namespace+", ")); err != nil {
		l.t.Fatal(err)
	}
}

// pod waits until a Pod is as it should be, and returns it.
func (l *lab) pod(name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	l.t.Helper()
	var pod *corev1.Pod
	l.await("pod "+name+" to be "+what, func() (err error) {
		pod, err = l.Client(l.t).CoreV1().Pods(l.namespace).Get(l.t.Context(), name, metav1.GetOptions{})
		if err == nil && !is(pod) {
			text, _ := yaml.Marshal(pod.Status)
			err = fmt.Errorf("it is\n%s", text)
		}
		return err
	})
	return pod
}

func running(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// logs returns the log of a container.
func (l *lab) logs(pod string, o corev1.PodLogOptions) string {
	l.t.Helper()
	text, err := l.Client(l.t).CoreV1().Pods(l.namespace).GetLogs(pod, &o).DoRaw(l.t.Context())
	if err != nil {
		l.t.Fatalf("logs of %s: %v", pod, err)
	}
	return string(text)
}

// exec runs a shell command in the first container of a Pod.
func (l *lab) exec(pod, script string) string {
	l.t.Helper()
	out, err := l.Exec(l.t.Context(), l.namespace, pod, "", "sh", "-c", script)
	if err != nil {
		l.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// errNot is of a condition that does not hold yet.
var errNot = errors.New("not yet")

// leftLog reads the log of a deleted Pod.
func (l *lab) leftLog(pod, container string) string {
	l.t.Helper()
	text, err := os.ReadFile(filepath.Join(l.Dir(), "kubelet", "logs", l.namespace+"_"+pod, container, "0.log"))
	if err != nil {
		l.t.Fatal(err)
	}
	return string(text)
}
