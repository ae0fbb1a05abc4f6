package cni

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
	"github.com/meshpilot/meshpilot/internal/capture/iptables/command"
	"github.com/meshpilot/meshpilot/internal/kube/inject"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/manifests"
)

// TestPluginEqualsInitContainer injects pods with and without the plugin, and compares the
// plugin's options with those of the init container.
func TestPluginEqualsInitContainer(t *testing.T) {
	const metadata = "proxy.istio.io/config"
	for _, c := range []struct {
		name        string
		annotations map[string]string
		mesh        string
		security    *corev1.SecurityContext
	}{
		{name: "plain"},
		{name: "TPROXY", annotations: map[string]string{"sidecar.istio.io/interceptionMode": "TPROXY"}},
		{name: "inbound", annotations: map[string]string{
			"traffic.sidecar.istio.io/includeInboundPorts": "80,90", "traffic.sidecar.istio.io/excludeInboundPorts": "70",
		}},
		{name: "port 0", annotations: map[string]string{"traffic.sidecar.istio.io/excludeInboundPorts": "0"}},
		{name: "range of ports", annotations: map[string]string{"traffic.sidecar.istio.io/includeOutboundPorts": "443,8000:8010"}},
		{name: "no inbound", annotations: map[string]string{"traffic.sidecar.istio.io/includeInboundPorts": ""}},
		{name: "outbound", annotations: map[string]string{
			"traffic.sidecar.istio.io/includeOutboundIPRanges": "10.0.0.0/8,fd00::/8", "traffic.sidecar.istio.io/excludeOutboundIPRanges": "10.1.0.0/16",
			"traffic.sidecar.istio.io/includeOutboundPorts": "443", "traffic.sidecar.istio.io/excludeOutboundPorts": "3306,5432",
		}},
		{name: "interfaces", annotations: map[string]string{
			"traffic.sidecar.istio.io/excludeInterfaces": "eth1", "istio.io/reroute-virtual-interfaces": "vm0", "traffic.sidecar.istio.io/kubevirtInterfaces": "old",
		}},
		{name: "old name of virtual interfaces", annotations: map[string]string{"traffic.sidecar.istio.io/kubevirtInterfaces": "old"}},
		{name: "DNS", annotations: map[string]string{metadata: `{proxyMetadata: {ISTIO_META_DNS_CAPTURE: "true"}}`}},
		{name: "other variables", annotations: map[string]string{
			metadata: `{proxyMetadata: {ISTIO_DUAL_STACK: "true", INVALID_DROP: "true", ISTIO_OUTBOUND_OWNER_GROUPS: "101,102"}}`,
		}},
		{name: "ports of the mesh", mesh: "{proxyListenPort: 16001, proxyInboundListenPort: 16006}"},
		{name: "another user", security: &corev1.SecurityContext{RunAsUser: new(int64(2000)), RunAsGroup: new(int64(2000))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", Annotations: c.annotations},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1", Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}}},
			}
			if c.security != nil {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: proxyContainer, Image: "auto", SecurityContext: c.security})
			}
			want := toldInit(t, injected(t, pod, c.mesh, false))
			captured := injected(t, pod, c.mesh, true)
			if reason := skipReason(captured); reason != "" {
				t.Fatalf("not captured: %s", reason)
			}
			got, warnings, err := captureOptions(captured)
			if err != nil || len(warnings) > 0 {
				t.Fatal(err, warnings)
			}
			// The name servers of a pod are not known when its network is set up.
			want.CaptureAllDNS = want.RedirectDNS
			opts := []cmp.Option{
				cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmpopts.EquateEmpty(),
				cmpopts.SortSlices(func(a, b iptables.PortRange) bool { return a.First < b.First }),
			}
			if diff := cmp.Diff(want, got, opts...); diff != "" {
				t.Errorf("the options differ (-init container, +plugin):\n%s", diff)
			}
		})
	}
}

// toldInit returns the options of the init container by its arguments, except those of logs, and
// variables.
func toldInit(t *testing.T, pod *corev1.Pod) iptables.Options {
	t.Helper()
	c := findContainer(pod, initContainer)
	if c == nil {
		t.Fatal("no init container")
	}
	args := slices.DeleteFunc(slices.Clone(c.Args[1:]), func(arg string) bool { return strings.HasPrefix(arg, "--log") })
	o, _, err := command.Options(args, func(name string) (string, bool) {
		value := envValue(c, name)
		return value, value != ""
	}, noUsers())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func injected(t *testing.T, pod *corev1.Pod, meshConfig string, cni bool) *corev1.Pod {
	t.Helper()
	templates, err := manifests.InjectionTemplates()
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(map[string]any{"policy": "enabled", "templates": templates})
	if err != nil {
		t.Fatal(err)
	}
	s := new(inject.Settings)
	if s.Config, err = inject.ParseConfig(text, nil); err != nil {
		t.Fatal(err)
	}
	if text, err = manifests.InjectionValues(); err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	values["pilot"].(map[string]any)["cni"] = map[string]any{"enabled": cni}
	if text, err = yaml.Marshal(values); err != nil {
		t.Fatal(err)
	}
	if s.Values, err = inject.ParseValues(text); err != nil {
		t.Fatal(err)
	}
	if s.Mesh, err = mesh.ParseMeshConfig([]byte(meshConfig)); err != nil {
		t.Fatal(err)
	}
	r, err := s.Inject(inject.Request{Pod: pod, Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	return r.Pod
}

func TestNotCaptured(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*corev1.Pod)
		want   string
	}{
		{"as injected", func(*corev1.Pod) {}, ""},
		{"the node's network", func(p *corev1.Pod) { p.Spec.HostNetwork = true }, "host network"},
		{"with an init container", func(p *corev1.Pod) {
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: initContainer})
		}, "istio-init"},
		{"without a proxy", func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[:1] }, "no container istio-proxy"},
		{"a gateway", func(p *corev1.Pod) { p.Spec.Containers[1].Args[1] = "router" }, "router"},
		{"a native sidecar", func(p *corev1.Pod) {
			p.Spec.InitContainers = append(p.Spec.InitContainers, p.Spec.Containers[1])
			p.Spec.Containers = p.Spec.Containers[:1]
		}, ""},
		{"without Envoy", func(p *corev1.Pod) {
			p.Spec.Containers[1].Env = append(p.Spec.Containers[1].Env, corev1.EnvVar{Name: "DISABLE_ENVOY", Value: "true"})
		}, "DISABLE_ENVOY"},
		{"off by annotation", func(p *corev1.Pod) { p.Annotations["sidecar.istio.io/inject"] = "false" }, "injection is disabled"},
		{"off by annotation, on by label", func(p *corev1.Pod) {
			p.Annotations["sidecar.istio.io/inject"] = "false"
			p.Labels["sidecar.istio.io/inject"] = "true"
		}, ""},
		{"not injected", func(p *corev1.Pod) { delete(p.Annotations, "sidecar.istio.io/status") }, "not injected"},
		{"no interception", func(p *corev1.Pod) { p.Annotations["sidecar.istio.io/interceptionMode"] = "NONE" }, "NONE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := injected(t, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			}, "", true)
			slices.SortFunc(pod.Spec.Containers, func(a, b corev1.Container) int { return -strings.Compare(a.Name, b.Name) }) // web first
			c.change(pod)
			if got := skipReason(pod); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestWrongAnnotations tests that errors name the annotation, because the pod's owner reads them in
// the pod's events.
func TestWrongAnnotations(t *testing.T) {
	for name, value := range map[string]string{
		"sidecar.istio.io/interceptionMode":                "MAGIC",
		"traffic.sidecar.istio.io/includeInboundPorts":     "80,many",
		"traffic.sidecar.istio.io/excludeInboundPorts":     "70000",
		"traffic.sidecar.istio.io/includeOutboundIPRanges": "10.0.0.0",
		"traffic.sidecar.istio.io/excludeOutboundIPRanges": "here",
		"traffic.sidecar.istio.io/excludeOutboundPorts":    "-1",
	} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{name: value}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: proxyContainer}}},
		}
		if _, _, err := captureOptions(pod); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got error %v, want one line that names it", name, err)
		}
	}
}

// TestInvalidVariables tests that an invalid boolean of the proxy is ignored with a warning, and that
// other invalid values are errors.
func TestInvalidVariables(t *testing.T) {
	pod := func(name, value string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: proxyContainer, Env: []corev1.EnvVar{{Name: name, Value: value}}}}}}
	}
	for _, name := range []string{"ISTIO_META_DNS_CAPTURE", "ISTIO_DUAL_STACK", "INVALID_DROP"} {
		o, warnings, err := captureOptions(pod(name, "yes"))
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], name) || o.RedirectDNS || o.DualStack || o.DropInvalid {
			t.Errorf("%s: options %+v, warnings %q, error %v", name, o, warnings, err)
		}
	}
	if _, _, err := captureOptions(pod("ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR", "yes")); err == nil {
		t.Error("no error for an invalid range of addresses")
	}
}
