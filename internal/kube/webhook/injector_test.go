package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/kube/inject"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

func pod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		// Without a kubelet and controllers, no other component sets the account.
		Spec: corev1.PodSpec{
			ServiceAccountName: "default",
			Containers:         []corev1.Container{{Name: "app", Image: "app:1"}},
		},
	}
	if change != nil {
		change(p)
	}
	return p
}

func names(list []corev1.Container) []string {
	var out []string
	for _, c := range list {
		out = append(out, c.Name)
	}
	return out
}

// TestPodsAreInjected creates pods on a real API server, which calls the webhook.
func TestPodsAreInjected(t *testing.T) {
	f := newFixture(t)
	ns := f.cluster.Namespace(t, "injected", nil)
	f.injection(t, ns, ns, "/inject/cluster/c--slash--9/net/n1")
	f.runConfigurations(nil)
	f.trusted(t, ns)
	create := func(t *testing.T, p *corev1.Pod) (*corev1.Pod, error) {
		t.Helper()
		// The API server reads webhook configurations from a cache of its own.
		var out *corev1.Pod
		var err error
		serving.Eventually(t, patience, "injection answers", func() error {
			out, err = f.client.CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{})
			if err != nil && strings.Contains(err.Error(), "failed calling webhook") {
				return err
			}
			return nil
		})
		return out, err
	}
	cases := []struct {
		name            string
		change          func(*corev1.Pod)
		init, container []string
	}{
		{"a plain one", nil, []string{"istio-init"}, []string{"app", "istio-proxy"}},
		{"one that holds its application", func(p *corev1.Pod) {
			p.Annotations = map[string]string{"proxy.istio.io/config": "holdApplicationUntilProxyStarts: true"}
		}, []string{"istio-init"}, []string{"istio-proxy", "app"}},
		{"one with a native sidecar", func(p *corev1.Pod) {
			p.Annotations = map[string]string{"sidecar.istio.io/nativeSidecar": "true"}
			p.Spec.InitContainers = []corev1.Container{{Name: "setup", Image: "setup:1"}}
		}, []string{"istio-init", "istio-proxy", "setup"}, []string{"app"}},
		{"a gateway", func(p *corev1.Pod) {
			p.Annotations = map[string]string{"inject.istio.io/templates": "gateway"}
			p.Spec.Containers = []corev1.Container{{Name: "istio-proxy", Image: "auto"}}
		}, nil, []string{"istio-proxy"}},
		{
			"one that does not want it",
			func(p *corev1.Pod) { p.Labels["sidecar.istio.io/inject"] = "false" },
			nil,
			[]string{"app"},
		},
		{"one in its node's network", func(p *corev1.Pod) { p.Spec.HostNetwork = true }, nil, []string{"app"}},
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := create(t, pod(fmt.Sprintf("p%d", i), c.change))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(names(got.Spec.InitContainers), c.init) ||
				!slices.Equal(names(got.Spec.Containers), c.container) {
				t.Errorf("init containers %q, containers %q; want %q, %q",
					names(got.Spec.InitContainers), names(got.Spec.Containers), c.init, c.container)
			}
			if len(got.Spec.Containers)+len(got.Spec.InitContainers) > 1 &&
				got.Labels["topology.istio.io/network"] != "n1" {
				t.Errorf("the network of the webhook's path did not come through: %v", got.Labels)
			}
			if diff := cmp.Diff(
				shape(offline(t, f, ns, pod(fmt.Sprintf("p%d", i), c.change))),
				shape(got),
			); diff != "" {
				t.Errorf("differs from the offline injection of a manifest (-offline +webhook):\n%s", diff)
			}
		})
	}
	t.Run("one that cannot be", func(t *testing.T) {
		_, err := create(t, pod("bad", func(p *corev1.Pod) {
			p.Annotations = map[string]string{"traffic.sidecar.istio.io/excludeInboundPorts": "http"}
		}))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "traffic.sidecar.istio.io/excludeInboundPorts") {
			t.Errorf("error %v; want one that names the annotation", err)
		}
	})
	t.Run("templates that change", func(t *testing.T) {
		config, err := inject.ParseConfig(
			[]byte("policy: enabled\ntemplates: {sidecar: \"metadata: {labels: {new: template}}\"}"),
			nil,
		)
		if err != nil {
			t.Fatal(err)
		}
		f.injector.Configure(config, inject.Values{Tree: map[string]any{}})
		got, err := create(t, pod("later", nil))
		if err != nil || got.Labels["new"] != "template" {
			t.Errorf("labels %v, error %v", got.GetLabels(), err)
		}
	})
}

// offline returns a pod as it becomes without an API server.
func offline(t *testing.T, f *fixture, namespace string, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	text, err := yaml.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	text, _, err = f.injector.currentSettings().InjectManifest(text, inject.ManifestOptions{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	out := &corev1.Pod{}
	if err := yaml.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// shape is what of a pod neither the API server nor the webhook's path adds to.
func shape(p *corev1.Pod) map[string]any {
	shape := map[string]any{
		"status":    p.Annotations["sidecar.istio.io/status"],
		"canonical": p.Labels["service.istio.io/canonical-name"],
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		shape[c.Name] = []any{c.Image, c.Args, c.SecurityContext, c.Resources, c.RestartPolicy}
	}
	return shape
}

func TestLongPodNamesAreCutBetweenCharacters(t *testing.T) {
	for _, p := range []*corev1.Pod{
		pod(strings.Repeat("é", maxLoggedPodNames), func(*corev1.Pod) {}),
		pod("", func(p *corev1.Pod) { p.GenerateName = strings.Repeat("x", maxLoggedPodNames-1) }),
	} {
		if got := podNameForLog(p); !utf8.ValidString(got) || len(got) > maxLoggedPodNames {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	}
}

// TestWarningsReachTheUser sends a pod whose annotation is nearly one of Istio's.
func TestWarningsReachTheUser(t *testing.T) {
	f := newFixture(t)
	ns := f.cluster.Namespace(t, "warned", nil)
	f.injection(t, ns, ns, "/inject")
	f.runConfigurations(nil)
	f.trusted(t, ns)
	heard := &ear{}
	config := rest.CopyConfig(f.cluster.Config())
	config.WarningHandler = heard
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	serving.Eventually(t, patience, "a pod is admitted", func() error {
		p := pod("typo", func(p *corev1.Pod) {
			p.Annotations = map[string]string{
				"sidecar.istio.io/proxycpu": "1",
				"proxy.istio.io/config":     "{concurency: 2, concurrency: 3}",
			}
		})
		_, err := client.CoreV1().Pods(ns).Create(context.Background(), p, metav1.CreateOptions{})
		return err
	})
	all := strings.Join(heard.said, "\n")
	for _, want := range []string{"sidecar.istio.io/proxyCPU", "concurency"} {
		if !strings.Contains(all, want) {
			t.Errorf("the warnings do not speak of %s:\n%s", want, all)
		}
	}
}

type ear struct{ said []string }

func (e *ear) HandleWarningHeader(_ int, _, text string) { e.said = append(e.said, text) }
