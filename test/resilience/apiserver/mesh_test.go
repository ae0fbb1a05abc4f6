package apiserver

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/meshpilot/meshpilot/test/support/cluster"
)

// mesh is the test's client of the API server, which changes the objects of the mesh.
type mesh struct {
	t         *testing.T
	namespace string
	kube      *kubernetes.Clientset
	rules     dynamic.NamespaceableResourceInterface
}

func newMesh(t *testing.T, c *cluster.Cluster) *mesh {
	t.Helper()
	d, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &mesh{
		t: t, namespace: c.Namespace(t, "faults", nil), kube: c.Client(t),
		rules: d.Resource(schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "virtualservices"}),
	}
}

func (m *mesh) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// service creates a service with one endpoint.
func (m *mesh) service(name, address string) {
	m.t.Helper()
	_, err := m.kube.CoreV1().Services(m.namespace).Create(m.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}, metav1.CreateOptions{})
	m.must(err)
	_, err = m.kube.DiscoveryV1().EndpointSlices(m.namespace).Create(m.t.Context(), slice(name, address), metav1.CreateOptions{})
	m.must(err)
}

func slice(name string, addresses ...string) *discoveryv1.EndpointSlice {
	port, portName, ready := int32(8080), "http", true
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: name}}, AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
	}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
	}
	return s
}

// scale returns a service other endpoints.
func (m *mesh) scale(name string, addresses ...string) {
	m.t.Helper()
	_, err := m.kube.DiscoveryV1().EndpointSlices(m.namespace).Update(m.t.Context(), slice(name, addresses...), metav1.UpdateOptions{})
	m.must(err)
}

// remove removes a service and its endpoints.
func (m *mesh) remove(name string) {
	m.t.Helper()
	m.must(m.kube.CoreV1().Services(m.namespace).Delete(m.t.Context(), name, metav1.DeleteOptions{}))
	m.must(m.kube.DiscoveryV1().EndpointSlices(m.namespace).Delete(m.t.Context(), name+"-1", metav1.DeleteOptions{}))
}

// rule routes a service's calls with a timeout.
func (m *mesh) rule(name, timeout string) error {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"hosts": []any{name}, "http": []any{map[string]any{"timeout": timeout, "name": "rule-of-" + name,
			"route": []any{map[string]any{"destination": map[string]any{"host": name}}}}},
	}}}
	o.SetAPIVersion("networking.istio.io/v1")
	o.SetKind("VirtualService")
	o.SetName(name)
	_, err := m.rules.Namespace(m.namespace).Apply(m.t.Context(), name, o, metav1.ApplyOptions{FieldManager: "test", Force: true})
	return err
}

// outbound is the cluster of a service's port 80.
func (m *mesh) outbound(name string) string {
	return "outbound|80||" + name + "." + m.namespace + ".svc.cluster.local"
}

// istioCRDs is the file with the definitions of Istio's kinds.
func istioCRDs(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "istio.io/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "kubernetes", "customresourcedefinitions.gen.yaml")
}

func meshConfigMap(namespace, text string) *applycorev1.ConfigMapApplyConfiguration {
	return applycorev1.ConfigMap("istio", namespace).WithData(map[string]string{"mesh": text})
}
