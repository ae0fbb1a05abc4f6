package registry

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// TestTenThousandInstances has one Service with ten thousand endpoints, in EndpointSlices of the size that
// Kubernetes allows. A change of one of them applies.
func TestTenThousandInstances(t *testing.T) {
	longtest.Test(t)
	c := shared.Start(t)
	ns := c.Namespace(t, "large", nil)
	const inSlice, size = 1000, 10_000
	_, err := c.Client(t).CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	endpointSlices := c.Client(t).DiscoveryV1().EndpointSlices(ns)
	name, port := "http", int32(8080)
	var last *discoveryv1.EndpointSlice
	for n := range size / inSlice {
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: fmt.Sprint("web-", n), Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
		}
		for i := range inSlice {
			address := fmt.Sprintf("198.18.%d.%d", 4*n+i>>8, i&255)
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
		}
		if last, err = endpointSlices.Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	m := start(t, c)
	endpoints := func(want int) func(*snapshot.Snapshot) error {
		return func(s *snapshot.Snapshot) error {
			if n := len(s.Endpoints(host("web", ns)).Endpoints); n != want {
				return fmt.Errorf("%d endpoints", n)
			}
			return nil
		}
	}
	m.eventually("all endpoints", endpoints(size))
	last.Endpoints = last.Endpoints[1:]
	if _, err := endpointSlices.Update(t.Context(), last, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	m.eventually("one less", endpoints(size-1))
}
