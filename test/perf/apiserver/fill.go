package apiserver

import (
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Size is how many there are. Pods and Services are spread over the namespaces, and pods over the
// Services.
type Size struct{ Namespaces, Services, Pods int }

// writers is how many objects are written at the same time.
const writers = 8

// Fill writes the objects.
func Fill(ctx context.Context, config *rest.Config, s Size) error {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, 0 // no limit
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for i := range s.Namespaces {
		ns := &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{
				Name:   s.namespaceOf(i),
				Labels: map[string]string{"istio-injection": "enabled"},
			},
		}
		if _, err := c.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create namespace %s: %w", ns.Name, err)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range s.Services {
		group.Go(func() error { return s.writeService(ctx, c, i) })
	}
	return group.Wait()
}

func (s Size) namespaceOf(service int) string { return fmt.Sprintf("bench-%02d", service%s.Namespaces) }

// writeService writes a service, its pods and its slice.
func (s Size) writeService(ctx context.Context, c *kubernetes.Clientset, service int) error {
	ns := s.namespaceOf(service)
	if _, err := c.CoreV1().Services(ns).Create(ctx, newService(service), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create service %d: %w", service, err)
	}
	var pods []*corev1.Pod
	for i := service; i < s.Pods; i += s.Services {
		pod, err := c.CoreV1().Pods(ns).Create(ctx, newPod(service, i), metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create pod %d: %w", i, err)
		}
		status, err := json.Marshal(map[string]any{"status": newStatus(i)})
		if err != nil {
			return err
		}
		if pod, err = c.CoreV1().
			Pods(ns).
			Patch(ctx, pod.Name, types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
			return fmt.Errorf("write the status of pod %d: %w", i, err)
		}
		pods = append(pods, pod)
	}
	if _, err := c.DiscoveryV1().
		EndpointSlices(ns).
		Create(ctx, newSlice(service, pods), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the slice of service %d: %w", service, err)
	}
	return nil
}
