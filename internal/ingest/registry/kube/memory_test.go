package kube_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/namespaces"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Of a cluster of that size.
const memoryServices, memoryPods = 1000, 5000

// realPod is a pod of a Deployment as a source returns it: trimmed, with the labels and containers
// that pods of a mesh have.
func realPod(i int) mesh.Event {
	app := fmt.Sprintf("svc-%d", i%memoryServices)
	// copies of strings, as decoded from the network
	text := func(parts ...any) string { return fmt.Sprint(parts...) }
	controller := true
	always := corev1.ContainerRestartPolicyAlways
	labels := map[string]string{
		text("app"): text(app), text("version"): text("v", i%2), text("pod-template-hash"): text("7d9c8f", i%memoryServices),
		text("security.istio.io/tlsMode"): text("istio"), text("service.istio.io/canonical-name"): text(app), text("service.istio.io/canonical-revision"): text("v1"),
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: text(app, "-7d9c8f-", 10000+i), Namespace: text("ns-", i%50), UID: types.UID(text("6f1b9a3e-0000-0000-0000-", 100000000000+i)), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: text(app, "-7d9c8f", i%memoryServices), Controller: &controller}},
		},
		Spec: corev1.PodSpec{
			NodeName: text("node-", i%100), ServiceAccountName: text(app),
			InitContainers: []corev1.Container{{Name: text("istio-proxy"), RestartPolicy: &always, Ports: []corev1.ContainerPort{{Name: text("http-envoy-prom"), ContainerPort: 15090, Protocol: corev1.ProtocolTCP}}}},
			Containers:     []corev1.Container{{Name: text("app"), Ports: []corev1.ContainerPort{{Name: text("http"), ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: text("10.", i/62500, ".", i/250%250, ".", i%250), PodIPs: []corev1.PodIP{{IP: text("10.", i/62500, ".", i/250%250, ".", i%250)}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	return event(api.Pod, p, p)
}

func event(kind api.Kind, meta metav1.Object, spec any) mesh.Event {
	c, err := config.New(config.Meta{Key: config.Key{Kind: kind, Namespace: meta.GetNamespace(), Name: meta.GetName()}, Labels: meta.GetLabels()}, spec)
	if err != nil {
		panic(err)
	}
	return mesh.Event{Source: "cluster", Config: c}
}

func realService(i int) mesh.Batch {
	app, port, number := fmt.Sprintf("svc-%d", i), "http", int32(8080)
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: fmt.Sprintf("ns-%d", i%50), Labels: map[string]string{"app": app}},
		Spec:       corev1.ServiceSpec{ClusterIP: fmt.Sprintf("10.96.%d.%d", i/250, i%250), Selector: map[string]string{"app": app}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: app + "-x7k2p", Namespace: svc.Namespace, Labels: map[string]string{discoveryv1.LabelServiceName: app}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &port, Port: &number}},
	}
	for n := i; n < memoryPods; n += memoryServices {
		pod := realPod(n).Config
		p := config.Spec[*corev1.Pod](pod)
		ready, going, node := true, false, strings.Clone(p.Spec.NodeName)
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{p.Status.PodIP}, Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready, Terminating: &going}, NodeName: &node,
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		})
	}
	return mesh.Batch{event(api.Service, svc, svc), event(api.EndpointSlice, slice, slice)}
}

// BenchmarkMemory measures the memory of the converters for 5,000 pods and 1,000 services, and of
// the emitted events, which snapshots share.
func BenchmarkMemory(b *testing.B) {
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for b.Loop() {
		filter, c := namespaces.New(namespaces.Options{}), kube.New(kube.Options{})
		start := heap()
		for i := range memoryPods {
			filter.Convert(mesh.Batch{realPod(i)})
		}
		filtered := heap()
		for i := range memoryPods {
			c.Convert(mesh.Batch{realPod(i)})
		}
		pods := heap()
		for i := range memoryServices {
			c.Convert(realService(i))
		}
		all := heap()
		b.ReportMetric((filtered-start)/memoryPods, "filter-B/pod")
		b.ReportMetric((pods-filtered)/memoryPods, "B/pod")
		b.ReportMetric((all-pods)/memoryServices, "B/service+slice")
		b.ReportMetric((all-start)/1e6, "MB")
		runtime.KeepAlive(c)
		runtime.KeepAlive(filter)
	}
}
