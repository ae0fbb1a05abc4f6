package cni

import (
	"testing"

	"github.com/containernetworking/cni/pkg/skel"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/capture/iptables"
)

// FuzzConfig tests that whatever parses can be used by all methods.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"cniVersion":"1.0.0","name":"n","type":"istio-cni","exclude_namespaces":["a"],"prevResult":{"cniVersion":"1.0.0","interfaces":[{"name":"eth0"}]}}`), "K8S_POD_NAMESPACE=a;K8S_POD_NAME=b", "1,2")
	f.Add([]byte(`{"prevResult":null,"kubernetes":{"kubeconfig":"../x"}}`), ";;=", "*")
	f.Add([]byte(`{"cniVersion":"9.9.9","prevResult":{}}`), "K8S_POD_NAME=%", "65536")
	f.Fuzz(func(t *testing.T, text []byte, args, annotation string) {
		if c, err := ParseConfig(text); err == nil && (c.kubeconfigPath() == "" || c.RunDir == "" || c.excludesNamespace("x") && c.excludesNamespace("y") && c.excludesNamespace("z") && len(c.ExcludeNamespaces) == 0 && c.Kubernetes == nil) {
			t.Errorf("%q is read as %+v", text, c)
		}
		_, _ = parsePodName(&skel.CmdArgs{Args: args}) // must not panic
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "istio-proxy"}}}}
		for _, one := range []string{
			"traffic.sidecar.istio.io/includeInboundPorts", "traffic.sidecar.istio.io/excludeOutboundPorts", "traffic.sidecar.istio.io/includeOutboundIPRanges",
			"traffic.sidecar.istio.io/kubevirtInterfaces", "sidecar.istio.io/interceptionMode",
		} {
			pod.Annotations[one] = annotation
		}
		if o, _, err := captureOptions(pod); err == nil {
			if _, err := iptables.Plan(o); err != nil {
				t.Errorf("%q is accepted, but cannot be applied: %v", annotation, err)
			}
		}
	})
}
