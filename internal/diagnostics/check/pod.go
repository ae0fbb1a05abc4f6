package check

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

const (
	proxyContainer = "istio-proxy"
	// adminPort and readyPort are ports of the proxy in a pod.
	adminPort = 15000
	readyPort = 15021
)

// proxyStatus returns the container and the status of the proxy in a pod, which may be a native
// sidecar, as pointers into p. Both are nil if the pod has no proxy. The status alone is nil if it
// is not reported yet.
func proxyStatus(p *corev1.Pod) (*corev1.Container, *corev1.ContainerStatus) {
	var container *corev1.Container
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == proxyContainer {
				container = &list[i]
			}
		}
	}
	for _, list := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == proxyContainer {
				return container, &list[i]
			}
		}
	}
	return container, nil
}

// hasProxy reports whether a pod has a proxy.
func hasProxy(p *corev1.Pod) bool {
	c, _ := proxyStatus(p)
	return c != nil
}

// podRuns fails if the pod does not run, and otherwise stores it in t.pod for the checks that
// follow. The namespace is that of t.Proxy, else t.ProxyNamespace, else default.
func podRuns(ctx context.Context, t *Target) outcome {
	name, namespace, _ := strings.Cut(t.Proxy, ".")
	namespace = cmp.Or(namespace, t.ProxyNamespace, metav1.NamespaceDefault)
	p, err := t.Client.Kubernetes.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fail("namespace %s has no pod %s", namespace, name)
	case err != nil:
		return requestFailed(err)
	case p.Status.Phase != corev1.PodRunning:
		return fail("pod %s/%s is %s%s", namespace, name, p.Status.Phase, waitingReason(p))
	}
	t.pod = p
	return pass("%s/%s on node %s", namespace, name, p.Spec.NodeName)
}

// podInjected fails if the pod has no container of the proxy. It does not require that the
// container runs.
func podInjected(_ context.Context, t *Target) outcome {
	c, _ := proxyStatus(t.pod)
	if c == nil {
		return fail("it has no container %s", proxyContainer)
	}
	return pass("%s", c.Image)
}

// podCaptured fails if no rules of capture were applied: by an init container that succeeded, or by
// the CNI plugin, whose rules istio-validation verifies. In the node's network it only warns.
// Without these init containers, it warns for the interception mode NONE, and is skipped for
// gateways. The pod must have a proxy.
func podCaptured(_ context.Context, t *Target) outcome {
	if t.pod.Spec.HostNetwork {
		return warn("the pod uses the network of its node: nothing is captured")
	}
	for _, s := range t.pod.Status.InitContainerStatuses {
		if s.Name != "istio-init" && s.Name != "istio-validation" {
			continue
		}
		end := s.State.Terminated
		switch {
		case end == nil:
			return fail("init container %s has not ended%s", s.Name, waitingReason(t.pod))
		case end.ExitCode != 0:
			return fail("init container %s has ended with exit code %d: %s", s.Name, end.ExitCode,
				strings.TrimSpace(end.Reason+" "+end.Message))
		}
		return pass("%s has succeeded", s.Name)
	}
	if mode := interceptionMode(t.pod); mode == "NONE" {
		return warn("the interception mode is NONE: applications use the proxy explicitly")
	}
	if c, _ := proxyStatus(t.pod); slices.Contains(c.Args, "router") {
		return skip("it is a gateway, whose traffic is not captured")
	}
	return fail("it has neither the init container istio-init nor istio-validation: no rules redirect its traffic to the proxy")
}

// interceptionMode returns the interception mode of a pod, by its annotation or else the proxy's
// environment. It returns "" for the default.
func interceptionMode(p *corev1.Pod) string {
	if mode := p.Annotations["sidecar.istio.io/interceptionMode"]; mode != "" {
		return mode
	}
	if c, _ := proxyStatus(p); c != nil {
		for _, e := range c.Env {
			if e.Name == "ISTIO_META_INTERCEPTION_MODE" {
				return e.Value
			}
		}
	}
	return ""
}

// manyRestarts is the number of restarts that is reported.
const manyRestarts = 3

// proxyHealthy fails if a container of the pod was killed for its memory, or the proxy waits or has
// no status. It warns of manyRestarts and of a missing memory request.
func proxyHealthy(_ context.Context, t *Target) outcome {
	c, s := proxyStatus(t.pod)
	if s == nil {
		return fail("its container has no status yet")
	}
	var wrong, odd findings
	wrong = append(wrong, killedContainers(t.pod)...)
	if w := s.State.Waiting; w != nil {
		wrong.add("it waits: %s %s", w.Reason, w.Message)
	}
	if s.RestartCount >= manyRestarts {
		odd.add("%d restarts", s.RestartCount)
	}
	if c.Resources.Requests.Memory().IsZero() {
		odd.add("it has no memory request: it is among the first to be evicted")
	}
	return conclude(wrong, odd, "%d restarts", s.RestartCount)
}

// proxyReady fails if the readiness page of the pod's agent does not answer 200.
func proxyReady(ctx context.Context, t *Target) outcome {
	if _, _, err := t.getPod(ctx, t.pod, readyPort, "/healthz/ready"); err != nil {
		return fail("%v", err)
	}
	return pass("")
}

// podSynced fails if the proxy is connected to no replica, refuses resources or is not sent some
// because proxies refuse them. It also fails if a replica does not answer. It warns of types that
// the proxy has not acknowledged within ackTime. All connections of the proxy are considered.
func podSynced(ctx context.Context, t *Target) outcome {
	list, wrong := t.proxies(ctx)
	name := t.pod.Name + "." + t.pod.Namespace
	list = slices.DeleteFunc(list, func(s debug.SyncStatus) bool { return s.Proxy != name })
	if len(list) == 0 {
		wrong.add("%s is connected to none of the %d replicas", name, len(t.Control.Replicas))
		return fail("%s", wrong)
	}
	var late findings
	types := 0
	for _, s := range list {
		addRefusals(s, &wrong)
		t.addLate(s, &late)
		types = max(types, len(s.Resources))
	}
	return conclude(wrong, late, "%d types", types)
}

// adminCertificates is Envoy's page /certs.
type adminCertificates struct {
	Certificates []struct {
		CertChain []struct {
			ValidFrom      time.Time `json:"valid_from"`
			ExpirationTime time.Time `json:"expiration_time"`
		} `json:"cert_chain"`
	} `json:"certificates"`
}

// podCertificate fails if Envoy has no certificate or an invalid one at present, and if the admin
// page does not answer. It warns if a certificate expires within leafWarning.
func podCertificate(ctx context.Context, t *Target) outcome {
	body, _, err := t.getPod(ctx, t.pod, adminPort, "/certs")
	if err != nil {
		return fail("%v", err)
	}
	var page adminCertificates
	if err := json.Unmarshal(body, &page); err != nil {
		return fail("/certs: %v", err)
	}
	var wrong, soon findings
	last := time.Time{}
	for _, c := range page.Certificates {
		for _, leaf := range c.CertChain {
			switch left := leaf.ExpirationTime.Sub(t.Now()); {
			case left <= 0:
				wrong.add("it has expired at %s", leaf.ExpirationTime.Format(time.RFC3339))
			case t.Now().Before(leaf.ValidFrom):
				wrong.add("it is not valid before %s", leaf.ValidFrom.Format(time.RFC3339))
			case left < leafWarning:
				soon.add("it expires at %s", leaf.ExpirationTime.Format(time.RFC3339))
			}
			last = leaf.ExpirationTime
		}
	}
	if last.IsZero() {
		return fail("Envoy has no certificate")
	}
	return conclude(wrong, soon, "until %s", last.Format(time.RFC3339))
}

// podEnvoyVersion warns if the release of Envoy in the pod is not supported. A version without
// slashes is skipped, and an unknown one passes. It fails if the admin page does not answer or is
// malformed.
func podEnvoyVersion(ctx context.Context, t *Target) outcome {
	body, _, err := t.getPod(ctx, t.pod, adminPort, "/server_info")
	if err != nil {
		return fail("%v", err)
	}
	var info struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(body, &info); err != nil {
		return fail("/server_info: %v", err)
	}
	parts := strings.Split(info.Version, "/") // REVISION/1.40.0/Clean/RELEASE/BoringSSL
	if len(parts) < 2 {
		return skip("version %q", info.Version)
	}
	if text := envoySkew(parts[1]); text != "" {
		return warn("%s", text)
	}
	return pass("Envoy %s", parts[1])
}

// podClock compares the clock of the pod's node with the one of this machine. It warns of more than
// clockSkew and fails for more than maxClockSkew. It is skipped if Envoy does not answer.
func podClock(ctx context.Context, t *Target) outcome {
	_, header, err := t.getPod(ctx, t.pod, adminPort, "/ready")
	if err != nil {
		return skip("%v", err)
	}
	var wrong, far findings
	t.compareClock("the pod", header, &wrong, &far)
	return conclude(wrong, far, "within %s of this machine", clockSkew)
}
