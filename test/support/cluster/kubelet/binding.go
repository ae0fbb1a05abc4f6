package kubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// watchPods observes all Pods until ctx ends. It is the scheduler, too: there is one node to choose
// from.
func (k *kubelet) watchPods(ctx context.Context) {
	factory := informers.NewSharedInformerFactory(k.client, 0)
	informer := factory.Core().V1().Pods().Informer()
	take := func(o any) {
		object, ok := o.(*corev1.Pod)
		if !ok {
			return
		}
		if object.Spec.NodeName == "" && object.DeletionTimestamp == nil && len(object.Spec.SchedulingGates) == 0 {
			k.running.Go(func() { k.bindPod(ctx, object) })
			return
		}
		k.observePod(ctx, object)
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    take,
		UpdateFunc: func(_, o any) { take(o) },
		DeleteFunc: func(o any) {
			if lost, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = lost.Obj
			}
			if object, ok := o.(*corev1.Pod); ok {
				k.removePod(object.UID)
			}
		},
	})
	if err != nil {
		k.Log.Error("pods are not watched", "error", err)
		return
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
}

func (k *kubelet) bindPod(ctx context.Context, object *corev1.Pod) {
	err := k.client.CoreV1().Pods(object.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: object.Name, Namespace: object.Namespace, UID: object.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: k.Node},
	}, metav1.CreateOptions{})
	if err != nil && !isGone(err) && ctx.Err() == nil {
		k.Log.Warn("a pod was not bound", "pod", object.Namespace+"/"+object.Name, "error", err)
	}
}

// isGone reports whether an error means that the object is missing, was replaced, or has changed.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }
