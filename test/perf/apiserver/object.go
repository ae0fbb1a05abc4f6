package apiserver

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func serviceName(service int) string { return fmt.Sprintf("service-%05d", service) }

func podAddress(pod int) string {
	return fmt.Sprintf("10.%d.%d.%d", 128+pod/62500, pod/250%250, 1+pod%250)
}

func newService(service int) *corev1.Service {
	name := serviceName(service)
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{
				{
					Name:       "http",
					Port:       80,
					TargetPort: intstr.FromInt32(8080),
				},
				{Name: "grpc", Port: 9090, TargetPort: intstr.FromInt32(9090)},
			},
		},
	}
}

// newPod is a pod of a Deployment, as large as one of a real application with an injected sidecar:
// some 8 KiB.
func newPod(service, pod int) *corev1.Pod {
	name := serviceName(service)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-6b7f9c8d5-%05d", name, pod),
			Labels: map[string]string{
				"app":                                 name,
				"version":                             "v1",
				"pod-template-hash":                   "6b7f9c8d5",
				"app.kubernetes.io/name":              name,
				"app.kubernetes.io/part-of":           "bench",
				"security.istio.io/tlsMode":           "istio",
				"service.istio.io/canonical-name":     name,
				"service.istio.io/canonical-revision": "v1",
			},
			Annotations: map[string]string{
				"istio.io/rev": "default",
				"kubectl.kubernetes.io/default-container": "app",
				"prometheus.io/scrape":                    "true",
				"prometheus.io/path":                      "/stats/prometheus",
				"prometheus.io/port":                      "15020",
				"sidecar.istio.io/status": `{"initContainers":["istio-init"],"containers":["istio-proxy"],` +
					`"volumes":["` + strings.Repeat("volume-name\",\"", 12) + `last"]}`,
			},
			OwnerReferences: []metav1.OwnerReference{
				{
					APIVersion: "apps/v1",
					Kind:       "ReplicaSet",
					Name:       name + "-6b7f9c8d5",
					UID:        "0b3d1f4e-8c0f-4f5e-9d67-2f1f0b0d4a11",
					Controller: new(bool),
				},
			},
		},
		Spec: corev1.PodSpec{
			NodeName:           fmt.Sprintf("node-%03d", pod%100),
			ServiceAccountName: "bench",
			Containers: []corev1.Container{
				newContainer("app", 8080, "http", 15),
				newContainer("istio-proxy", 15090, "http-envoy-prom", 40),
			},
			InitContainers: []corev1.Container{newContainer("istio-init", 0, "", 5)},
		},
	}
	*p.OwnerReferences[0].Controller = true
	return p
}

func newContainer(name string, port int32, portName string, variables int) corev1.Container {
	c := corev1.Container{
		Name:  name,
		Image: "registry.example.com/bench/" + name + ":1.2.3",
		Args:  []string{"proxy", "sidecar", "--domain", "$(POD_NAMESPACE).svc.cluster.local"},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("100m"),
				corev1.ResourceMemory: resource.MustParse("128Mi"),
			},
			Limits: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("2"),
				corev1.ResourceMemory: resource.MustParse("1Gi"),
			},
		},
	}
	for i := range variables {
		c.Env = append(
			c.Env,
			corev1.EnvVar{
				Name:  fmt.Sprintf("VARIABLE_%02d", i),
				Value: fmt.Sprintf("the value of a variable, number %d", i),
			},
		)
	}
	if port > 0 {
		c.Ports = []corev1.ContainerPort{{Name: portName, ContainerPort: port, Protocol: corev1.ProtocolTCP}}
		c.ReadinessProbe = &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/healthz/ready", Port: intstr.FromInt32(port)},
			},
		}
	}
	return c
}

// newStatus is the status that a kubelet writes for a ready pod.
func newStatus(pod int) corev1.PodStatus {
	s := corev1.PodStatus{
		Phase:    corev1.PodRunning,
		PodIP:    podAddress(pod),
		PodIPs:   []corev1.PodIP{{IP: podAddress(pod)}},
		HostIP:   fmt.Sprintf("10.0.0.%d", pod%100),
		QOSClass: corev1.PodQOSBurstable,
	}
	conditions := []corev1.PodConditionType{
		corev1.PodReadyToStartContainers,
		corev1.PodInitialized,
		corev1.PodReady,
		corev1.ContainersReady,
		corev1.PodScheduled,
	}
	for _, t := range conditions {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue})
	}
	for _, name := range []string{"app", "istio-proxy"} {
		started := true
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{
			Name:    name,
			Ready:   true,
			Started: &started,
			Image:   "registry.example.com/bench/" + name + ":1.2.3",
			ImageID: "registry.example.com/bench/" + name + "@sha256:" + strings.Repeat(
				"0a",
				32,
			),
			ContainerID: "containerd://" + strings.Repeat("1b", 32),
		})
	}
	return s
}

func newSlice(service int, pods []*corev1.Pod) *discoveryv1.EndpointSlice {
	name := serviceName(service)
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: name + "-x7k2p",
			Labels: map[string]string{
				discoveryv1.LabelServiceName: name,
				discoveryv1.LabelManagedBy:   "endpointslice-controller.k8s.io",
			},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, port := range []struct {
		name   string
		number int32
	}{{"http", 8080}, {"grpc", 9090}} {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &port.name, Port: &port.number})
	}
	ready := true
	for _, p := range pods {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{p.Status.PodIP}, NodeName: &p.Spec.NodeName,
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		})
	}
	return s
}
