package kubelet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Init containers run one after the other. Sidecars among them keep running and are ready before
// the next container starts. Each container sees the files that the previous one wrote to a volume.
func TestContainersStartInOrder(t *testing.T) {
	l := newLab(t)
	l.apply(`
apiVersion: v1
kind: Pod
metadata: {name: order}
spec:
  restartPolicy: Never
  initContainers:
  - name: first
    image: busybox
    args: [-c, "echo first > /shared/order"]
    volumeMounts: [{name: shared, mountPath: /shared}]
  - name: sidecar
    image: busybox
    restartPolicy: Always
    args: [-c, "trap 'echo sidecar ends >> /shared/order; exit 0' TERM; echo sidecar >> /shared/order; touch /shared/up; while :; do sleep 0.05; done"]
    startupProbe: {exec: {command: [cat, /shared/up]}, periodSeconds: 1}
    volumeMounts: [{name: shared, mountPath: /shared}]
  - name: second
    image: busybox
    args: [-c, "echo second >> /shared/order"]
    volumeMounts: [{name: shared, mountPath: /shared}]
  containers:
  - name: main
    image: busybox
    args: [-c, "echo main >> /shared/order; cat /shared/order"]
    volumeMounts: [{name: shared, mountPath: /shared}]
  volumes: [{name: shared, emptyDir: {}}]
`)
	pod := l.pod("order", "ended", ended)
	if pod.Status.Phase != corev1.PodSucceeded {
		t.Errorf("a pod whose containers end well is %s", pod.Status.Phase)
	}
	if got, want := l.logs("order", corev1.PodLogOptions{Container: "main"}), "first\nsidecar\nsecond\nmain\n"; got != want {
		t.Errorf("the order is %q, want %q", got, want)
	}
	l.pod("order", "without its sidecar", func(p *corev1.Pod) bool { return p.Status.InitContainerStatuses[1].State.Terminated != nil })
}

func TestInitContainerFails(t *testing.T) {
	l := newLab(t)
	l.apply(`
apiVersion: v1
kind: Pod
metadata: {name: bad}
spec:
  restartPolicy: Never
  initContainers: [{name: init, image: busybox, args: [-c, exit 7]}]
  containers: [{name: main, image: pause}]
`)
	pod := l.pod("bad", "ended", ended)
	if s := pod.Status.InitContainerStatuses[0].State.Terminated; pod.Status.Phase != corev1.PodFailed || s == nil || s.ExitCode != 7 {
		t.Errorf("it is %s, its init container %v", pod.Status.Phase, s)
	}
	if s := pod.Status.ContainerStatuses[0].State; s.Waiting == nil {
		t.Errorf("the container after it is %v, want waiting", s)
	}
}

// An ended container is restarted, one of an unknown image waits with a reason; logs of the
// previous run are kept.
func TestRestarts(t *testing.T) {
	l := newLab(t)
	l.apply(`
apiVersion: v1
kind: Pod
metadata: {name: crash}
spec:
  containers:
  - {name: main, image: busybox, args: [-c, "cat /proc/uptime; exit 3"]}
  - {name: unknown, image: not-in-the-map}
`)
	pod := l.pod("crash", "restarted", func(p *corev1.Pod) bool {
		list := p.Status.ContainerStatuses
		// A run that has just ended is the state itself, and not yet the one before.
		return len(list) == 2 && list[0].RestartCount > 0 && list[0].State.Terminated == nil && list[1].State.Waiting != nil
	})
	if last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 3 {
		t.Errorf("the run before ended with %v, want 3", last)
	}
	if w := pod.Status.ContainerStatuses[1].State.Waiting; w.Reason != "ErrImagePull" || !strings.Contains(w.Message, "not-in-the-map") {
		t.Errorf("the unknown image waits for %q: %s", w.Reason, w.Message)
	}
	now, before := corev1.PodLogOptions{Container: "main"}, corev1.PodLogOptions{Container: "main", Previous: true}
	l.await("logs of two runs", func() error {
		if a, b := l.logs("crash", now), l.logs("crash", before); a == b || a == "" || b == "" {
			return fmt.Errorf("they are %q and %q", a, b)
		}
		return nil
	})
}

func TestLivenessProbeRestarts(t *testing.T) {
	l := newLab(t)
	l.apply(`
apiVersion: v1
kind: Pod
metadata: {name: live}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: busybox
    args: [-c, "touch /tmp/ok; sleep 1; rm /tmp/ok; sleep 100"]
    livenessProbe: {exec: {command: [cat, /tmp/ok]}, periodSeconds: 1, failureThreshold: 1}
`)
	l.pod("live", "restarted", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount > 0
	})
}

// For a deleted Pod the preStop hook runs, then SIGTERM is sent, and after the grace period the Pod
// is removed.
func TestGracefulEnd(t *testing.T) {
	l := newLab(t)
	l.apply(`
apiVersion: v1
kind: Pod
metadata: {name: graceful}
spec:
  terminationGracePeriodSeconds: 20
  containers:
  - name: main
    image: busybox
    args: [-c, "trap 'echo term; sleep 0.3; echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"]
    lifecycle: {preStop: {exec: {command: [sh, -c, "echo hook >> /proc/1/fd/1"]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: stubborn}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: busybox, args: [-c, "trap '' TERM; while :; do sleep 0.05; done"]}]
`)
	for _, name := range []string{"graceful", "stubborn"} {
		l.pod(name, "running", running)
	}
	l.await("its first words", func() error {
		if l.logs("graceful", corev1.PodLogOptions{}) == "" {
			return errNot
		}
		return nil
	})
	began := time.Now()
	pods := l.Client(t).CoreV1().Pods(l.namespace)
	for _, name := range []string{"graceful", "stubborn"} {
		if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"graceful", "stubborn"} {
		l.await(name+" to be deleted", func() error {
			_, err := pods.Get(t.Context(), name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errNot
		})
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("took %s", took)
	}
	// The API server requests no logs of a deleted Pod from a node: they are read from the file.
	if got, want := l.leftLog("graceful", "main"), "up\nhook\nterm\nbye\n"; got != want {
		t.Errorf("output = %q, want %q", got, want)
	}
}

func TestReadinessGate(t *testing.T) {
	l := newLab(t)
	l.apply(`
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec:
  readinessGates: [{conditionType: example.com/gate}]
  containers: [{name: main, image: pause}]
`)
	pod := l.pod("gated", "running", running)
	if ready(pod) {
		t.Fatal("it is ready before its gate opens")
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "example.com/gate", Status: corev1.ConditionTrue})
	l.await("the gate to open", func() error {
		patch := []byte(`{"status":{"conditions":[{"type":"example.com/gate","status":"True"}]}}`)
		_, err := l.Client(t).CoreV1().Pods(l.namespace).Patch(t.Context(), "gated", "application/strategic-merge-patch+json", patch, metav1.PatchOptions{}, "status")
		return err
	})
	l.pod("gated", "ready", ready)
}

// TestUsers: a container whose Pod names no user is neither root nor the proxy's user, and one that
// names the proxy's waits with a reason.
func TestUsers(t *testing.T) {
	l := newLab(t)
	l.apply(`
apiVersion: v1
kind: Pod
metadata: {name: users}
spec:
  containers:
  - {name: shell, image: busybox, args: [-c, "id -u; sleep 100"]}
  - {name: curl, image: "curl:1", command: [sh, -c, "id -u; sleep 100"]}
  - {name: pause, image: pause, command: [sh, -c, "id -u; sleep 100"]}
  - {name: root, image: busybox, args: [-c, "id -u; sleep 100"], securityContext: {runAsUser: 0}}
  - {name: proxy, image: busybox, args: [-c, "id -u"], securityContext: {runAsUser: 1337}}
`)
	pod := l.pod("users", "running", func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.Name == "proxy" && s.State.Waiting != nil && s.State.Waiting.Reason == "CreateContainerConfigError"
		})
	})
	for container, want := range map[string]string{"shell": "5000\n", "curl": "5000\n", "pause": "5000\n", "root": "0\n"} {
		l.await("the user of "+container, func() error {
			if got := l.logs(pod.Name, corev1.PodLogOptions{Container: container}); got != want {
				return fmt.Errorf("it is %q, want %q", got, want)
			}
			return nil
		})
	}
}
