package kube_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

const services, podsPerService = 1000, 10

func named(kind api.Kind, name string, labels map[string]string, spec any) mesh.Event {
	c, err := config.New(config.Meta{Key: config.Key{Kind: kind, Namespace: "default", Name: name}, Labels: labels}, spec)
	if err != nil {
		panic(err)
	}
	return mesh.Event{Config: c}
}

func benchPod(service, i int, version string, ready corev1.ConditionStatus) mesh.Event {
	app := fmt.Sprintf("svc-%d", service)
	return named(api.Pod, fmt.Sprintf("%s-%d", app, i), map[string]string{"app": app, "version": version}, &corev1.Pod{
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i), ServiceAccountName: app},
		Status: corev1.PodStatus{PodIP: fmt.Sprintf("10.%d.%d.%d", service/250, service%250, i),
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	})
}

// benchWorld is 1,000 services of 10 pods each.
func benchWorld() mesh.Batch {
	var batch mesh.Batch
	for s := range services {
		app := fmt.Sprintf("svc-%d", s)
		batch = append(batch, named(api.Service, app, nil, &corev1.Service{Spec: corev1.ServiceSpec{
			ClusterIP: fmt.Sprintf("10.96.%d.%d", s/250, s%250), Selector: map[string]string{"app": app},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
		}}))
		name, port := "http", int32(8080)
		slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}}}
		for i := range podsPerService {
			batch = append(batch, benchPod(s, i, "v1", corev1.ConditionTrue))
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{fmt.Sprintf("10.%d.%d.%d", s/250, s%250, i)},
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: fmt.Sprintf("%s-%d", app, i)},
			})
		}
		batch = append(batch, named(api.EndpointSlice, app+"-x", map[string]string{discoveryv1.LabelServiceName: app}, slice))
	}
	for i := range podsPerService {
		labels := map[string]string{corev1.LabelTopologyRegion: "eu", corev1.LabelTopologyZone: fmt.Sprintf("eu-%d", i)}
		node := named(api.Node, fmt.Sprintf("node-%d", i), labels, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}})
		node.Config.Namespace = ""
		batch = append(batch, node)
	}
	return batch
}

func BenchmarkConvertAll(b *testing.B) {
	world := benchWorld()
	b.ReportAllocs()
	for b.Loop() {
		if out := kube.New(kube.Options{}).Convert(world); len(out) != services*(2+podsPerService) {
			b.Fatalf("%d events", len(out))
		}
	}
}

// benchmarkChange converts, in a world of 10,000 pods, an object that is now one and now the other
// of two versions.
func benchmarkChange(b *testing.B, events int, versions [2]mesh.Event) {
	c := kube.New(kube.Options{})
	c.Convert(benchWorld())
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		if out := c.Convert(mesh.Batch{versions[i%2]}); len(out) != events {
			b.Fatalf("%d events, want %d", len(out), events)
		}
	}
}

func BenchmarkPodLabels(b *testing.B) {
	benchmarkChange(b, 2, [2]mesh.Event{benchPod(500, 3, "v1", corev1.ConditionTrue), benchPod(500, 3, "v2", corev1.ConditionTrue)})
}

func BenchmarkPodReadiness(b *testing.B) {
	benchmarkChange(b, 1, [2]mesh.Event{benchPod(500, 3, "v1", corev1.ConditionTrue), benchPod(500, 3, "v1", corev1.ConditionFalse)})
}

func BenchmarkPodUnchanged(b *testing.B) {
	benchmarkChange(b, 0, [2]mesh.Event{benchPod(500, 3, "v1", corev1.ConditionTrue), benchPod(500, 3, "v1", corev1.ConditionTrue)})
}
