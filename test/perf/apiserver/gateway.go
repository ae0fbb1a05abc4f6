package apiserver

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// GatewayNamespace is the namespace of the Gateway, its routes and its proxies.
const GatewayNamespace = "gateway"

// Routes and Gateways are the resources of HTTPRoutes and Gateways.
var (
	Routes   = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}
	Gateways = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"}
)

// RouteName returns the name of an HTTPRoute.
func RouteName(route int) string { return fmt.Sprintf("route-%05d", route) }

// ProxyAddress returns the address of a proxy of the Gateway.
func ProxyAddress(proxy int) string { return podAddress(60000 + proxy) }

// Route returns an HTTPRoute with a hostname and a rule for each of two paths. The rule sets a header
// of requests to mark.
func Route(route int, mark string) *unstructured.Unstructured {
	rule := func(path string) map[string]any {
		return map[string]any{
			"matches": []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": path}}},
			"filters": []any{map[string]any{"type": "RequestHeaderModifier", "requestHeaderModifier": map[string]any{
				"set": []any{map[string]any{"name": "x-mark", "value": mark}},
			}}},
			"backendRefs": []any{map[string]any{"name": "backend", "port": int64(80)}},
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": Routes.GroupVersion().String(), "kind": "HTTPRoute",
		"metadata": map[string]any{"name": RouteName(route), "namespace": GatewayNamespace},
		"spec": map[string]any{
			"parentRefs": []any{map[string]any{"name": "gateway"}},
			"hostnames":  []any{fmt.Sprintf("host-%05d.example.com", route)},
			"rules":      []any{rule("/"), rule("/api")},
		},
	}}
}

// FillGateway writes a Gateway whose Service has the given number of proxies, a backend, and routes.
func FillGateway(ctx context.Context, config *rest.Config, routes, proxies int) error {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, 0 // no limit
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: GatewayNamespace}}
	if _, err := c.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", ns.Name, err)
	}
	for name, n := range map[string]int{"backend": 2, "gateway": proxies} {
		if err := writeWorkload(ctx, c, name, n); err != nil {
			return err
		}
	}
	gateway := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": Gateways.GroupVersion().String(), "kind": "Gateway",
		"metadata": map[string]any{"name": "gateway", "namespace": GatewayNamespace},
		"spec": map[string]any{
			"gatewayClassName": "istio",
			"addresses": []any{map[string]any{
				"type": "Hostname", "value": "gateway." + GatewayNamespace + ".svc.cluster.local",
			}},
			"listeners": []any{map[string]any{"name": "http", "port": int64(80), "protocol": "HTTP"}},
		},
	}}
	gateways := d.Resource(Gateways).Namespace(GatewayNamespace)
	if _, err := gateways.Create(ctx, gateway, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the Gateway: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range routes {
		group.Go(func() error {
			_, err := d.Resource(Routes).Namespace(GatewayNamespace).Create(ctx, Route(i, "none"), metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

// writeWorkload writes a Service with port 80, its pods and its slice.
func writeWorkload(ctx context.Context, c *kubernetes.Clientset, name string, pods int) error {
	labels := map[string]string{"app": name}
	port, portName, ready := int32(80), "http", true
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
	}
	for i := range pods {
		address := podAddress(50000 + i)
		if name == "gateway" {
			address = ProxyAddress(i)
		}
		pod := newPod(0, i)
		pod.Name, pod.Labels = fmt.Sprintf("%s-%05d", name, i), labels
		made, err := c.CoreV1().Pods(GatewayNamespace).Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create pod %s: %w", pod.Name, err)
		}
		made.Status = newStatus(i)
		made.Status.PodIP, made.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
		if _, err := c.CoreV1().Pods(GatewayNamespace).UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("write the status of pod %s: %w", pod.Name, err)
		}
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: GatewayNamespace, Name: pod.Name, UID: made.UID},
		})
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Name: portName, Port: port}}},
	}
	if _, err := c.CoreV1().Services(GatewayNamespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create service %s: %w", name, err)
	}
	if _, err := c.DiscoveryV1().EndpointSlices(GatewayNamespace).Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the slice of service %s: %w", name, err)
	}
	return nil
}
