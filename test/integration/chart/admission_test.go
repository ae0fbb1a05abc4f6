package chart

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/internal/kube/inject"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// TestAdmission: the API server validates the objects that the charts render.
func TestAdmission(t *testing.T) {
	longtest.Test(t)
	c := cluster.Start(t, cluster.Options{})
	h := newHelm(t, c.Kubeconfig())
	// Before the webhooks of the other test, which call no control plane.
	t.Run("pod security", func(t *testing.T) { testPodSecurity(t, c, h) })
	t.Run("fields", func(t *testing.T) { testFields(t, c, h) })
}

// testFields applies the objects that the charts render with each set of values, profile and
// platform. In server-side apply an unknown field is an error, and so is a value of the wrong type.
func testFields(t *testing.T, c *cluster.Cluster, h helm) {
	if err := c.InstallCRDs(t.Context(), filepath.Join("testdata", "multus.yaml")); err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{"shop", "bank"} {
		createNamespace(t, c, ns)
	}
	sets := allSets(t, h)
	sets["istiod, production"], sets["gateway, production"] = nil, nil
	for i, name := range slices.Sorted(maps.Keys(sets)) {
		which, _, _ := strings.Cut(name, ",")
		namespace := fmt.Sprintf("set-%d", i)
		createNamespace(t, c, namespace)
		args := append([]string{"template", "x", chart(which), "-n", namespace}, arguments(sets[name])...)
		if strings.HasSuffix(name, "production") {
			args = append(args, "-f", documentedValues(t, h, which))
		}
		if which == "base" {
			args = append(args, "--set", "global.istioNamespace="+namespace)
		}
		if err := c.Apply(t.Context(), h.run(t, args...)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// documentedValues returns a file with the values that docs/HELM-VALUES.md recommends for production.
func documentedValues(t *testing.T, h helm, which string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(h.root, "docs", "HELM-VALUES.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(text), "```yaml\n# "+which+".yaml\n")
	block, _, ends := strings.Cut(block, "```\n")
	if !found || !ends {
		t.Fatalf("docs/HELM-VALUES.md has no values of %s", which)
	}
	file := filepath.Join(t.TempDir(), which+".yaml")
	if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// testPodSecurity: in a namespace that enforces the Pod Security Standard "restricted", the API
// server admits the pods of the control plane, of helm test, of gateways that the chart installs or
// the control plane deploys, and of workloads with the CNI plugin. It refuses the plugin's agent,
// which needs a namespace of its own with the standard "privileged".
func testPodSecurity(t *testing.T, c *cluster.Cluster, h helm) {
	client := c.Client(t)
	for name, standard := range map[string]string{"mesh": "restricted", "agents": "privileged"} {
		_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": standard},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		if _, err := client.CoreV1().ServiceAccounts(name).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	istiod := h.run(t, "template", "istiod", chart("istiod"), "-n", "mesh", "--set", "cni.enabled=true")
	gateway := h.run(t, "template", "gateway", chart("gateway"), "-n", "mesh", "--set", "serviceAccount.create=false")
	settings := injection(t, istiod)
	web := &corev1.Pod{Spec: corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{Name: "web", Image: "web:1", SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(bool), RunAsNonRoot: new(true), RunAsUser: new(int64(1000)),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}}},
	}}
	for name, pod := range map[string]*corev1.Pod{
		"control plane":      podOf(t, istiod, "Deployment"),
		"helm test":          podOf(t, istiod, "Pod"),
		"gateway":            injectPod(t, settings, podOf(t, gateway, "Deployment")),
		"deployed gateway":   injectPod(t, settings, podOf(t, deployedGateway(t, h), "Deployment")),
		"workload, with CNI": injectPod(t, settings, web),
	} {
		if err := admit(t, client, "mesh", pod); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	agent := podOf(t, h.run(t, "template", "cni", chart("cni"), "-n", "agents"), "DaemonSet")
	if err := admit(t, client, "agents", agent); err != nil {
		t.Errorf("agent of CNI: %v", err)
	}
	if err := admit(t, client, "mesh", agent); err == nil || !strings.Contains(err.Error(), "restricted") {
		t.Errorf("agent of CNI in a restricted namespace: error %v", err)
	}
	withoutCNI := injection(t, h.run(t, "template", "istiod", chart("istiod"), "-n", "mesh"))
	if err := admit(t, client, "mesh", injectPod(t, withoutCNI, web)); err == nil || !strings.Contains(err.Error(), "NET_ADMIN") {
		t.Errorf("workload without CNI: error %v", err)
	}
}

// deployedGateway returns the objects that the control plane deploys for a Gateway: a golden of
// internal/kube/gateway.
func deployedGateway(t *testing.T, h helm) string {
	t.Helper()
	golden, err := os.ReadFile(filepath.Join(h.root, "internal", "kube", "gateway", "testdata", "plain.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	_, deployed, found := strings.Cut(string(golden), "-- manifests --\n")
	if !found {
		t.Fatal("plain.txtar has no manifests")
	}
	return deployed
}

// admit creates a pod without storing it, with the service account of the namespace.
func admit(t *testing.T, client *kubernetes.Clientset, namespace string, pod *corev1.Pod) error {
	t.Helper()
	pod = pod.DeepCopy()
	pod.ObjectMeta = metav1.ObjectMeta{GenerateName: "pod-", Labels: pod.Labels, Annotations: pod.Annotations}
	pod.Spec.ServiceAccountName = "default"
	pod.Spec.AutomountServiceAccountToken = new(bool)
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	_, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, options)
	return err
}

// podOf returns the pod of the first object of a kind in a manifest.
func podOf(t *testing.T, manifest, kind string) *corev1.Pod {
	t.Helper()
	for _, o := range objects(t, manifest) {
		if o.GetKind() != kind {
			continue
		}
		pod := &corev1.Pod{}
		var template corev1.PodTemplateSpec
		switch kind {
		case "Pod":
			convertStrictly(t, o, pod)
			return pod
		case "DaemonSet":
			var d appsv1.DaemonSet
			convertStrictly(t, o, &d)
			template = d.Spec.Template
		default:
			var d appsv1.Deployment
			convertStrictly(t, o, &d)
			template = d.Spec.Template
		}
		pod.ObjectMeta, pod.Spec = template.ObjectMeta, template.Spec
		return pod
	}
	t.Fatalf("no %s", kind)
	return nil
}

func convertStrictly(t *testing.T, o *unstructured.Unstructured, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, into, true); err != nil {
		t.Fatal(err)
	}
}

// injection returns the settings of injection of a rendered chart istiod.
func injection(t *testing.T, manifest string) *inject.Settings {
	t.Helper()
	var data, meshData map[string]string
	for _, o := range objects(t, manifest) {
		d, _, _ := unstructured.NestedStringMap(o.Object, "data") // absent has none
		switch {
		case o.GetKind() != "ConfigMap":
		case strings.HasPrefix(o.GetName(), "istio-sidecar-injector"):
			data = d
		case d["mesh"] != "":
			meshData = d
		}
	}
	if data == nil {
		return nil
	}
	c, err := inject.ParseConfig([]byte(data[inject.ConfigKey]), nil)
	if err != nil {
		t.Fatal(err)
	}
	values, err := inject.ParseValues([]byte(data[inject.ValuesKey]))
	if err != nil {
		t.Fatal(err)
	}
	m, err := mesh.ParseMeshConfig([]byte(meshData["mesh"]))
	if err != nil {
		t.Fatal(err)
	}
	return &inject.Settings{Config: c, Values: values, Mesh: m}
}

func injectPod(t *testing.T, s *inject.Settings, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	r, err := s.Inject(inject.Request{Pod: pod, Namespace: "mesh"})
	if err != nil {
		t.Fatal(err)
	}
	return r.Pod
}
