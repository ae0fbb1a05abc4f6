package autoregister

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// PodReplicas reports which replicas of the control plane exist: those whose pods do.
type PodReplicas struct {
	Client kubernetes.Interface
	// Namespace is the namespace of the pods, Pod the name of this replica's own.
	Namespace, Pod string
}

// IsAlive reports whether a pod with the name of instance exists. It returns an error if a request
// fails, or if this replica is not a pod itself, because then others may not be pods either.
func (r PodReplicas) IsAlive(ctx context.Context, instance string) (bool, error) {
	pods := r.Client.CoreV1().Pods(r.Namespace)
	if _, err := pods.Get(ctx, r.Pod, metav1.GetOptions{}); err != nil {
		return false, fmt.Errorf("get the pod of this replica: %w", err)
	}
	switch _, err := pods.Get(ctx, instance, metav1.GetOptions{}); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("get the pod of another replica: %w", err)
	}
	return true, nil
}
