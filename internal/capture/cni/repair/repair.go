package repair

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Options say which pods are broken, and what is done with them. The flags behind the fields are Istio's.
type Options struct {
	Node          string // --repair-node-name
	DeletePods    bool   // --repair-delete-pods
	LabelPods     bool   // --repair-label-pods
	LabelKey      string // --repair-broken-pod-label-key
	LabelValue    string // --repair-broken-pod-label-value
	InitContainer string // --repair-init-container-name
	ExitCode      int    // --repair-init-container-exit-code
	Annotation    string // --repair-sidecar-annotation: pods without it are none of ours
	LabelSelector string // --repair-label-selectors
}

// DefaultOptions returns Istio's defaults, with which nothing is done.
func DefaultOptions() Options {
	return Options{
		LabelKey: "cni.istio.io/uninitialized", LabelValue: "true", InitContainer: "istio-validation", ExitCode: 126,
		Annotation: "sidecar.istio.io/status",
	}
}

// Enabled reports whether anything is to be done.
func (o Options) Enabled() bool { return o.DeletePods || o.LabelPods }

// recheck is how often pods are looked at without a change of theirs: the plugin may have come meanwhile.
const recheck = 10 * time.Second

// repairer looks at the pods of a node.
type repairer struct {
	Options
	client kubernetes.Interface
	since  func() (time.Time, bool)
	log    *slog.Logger
	pods   cache.Store
}

// Run repairs until ctx ends. since says since when the plugin is on the node, and whether it is.
func Run(ctx context.Context, o Options, client kubernetes.Interface, since func() (time.Time, bool), log *slog.Logger) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, recheck, informers.WithTweakListOptions(func(l *metav1.ListOptions) {
		l.LabelSelector = o.LabelSelector
		if o.Node != "" {
			l.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", o.Node).String()
		}
	}))
	informer := factory.Core().V1().Pods().Informer()
	r := &repairer{Options: o, client: client, since: since, log: log, pods: informer.GetStore()}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer queue.ShutDown()
	add := func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, object any) { add(object) }}); err != nil {
		return fmt.Errorf("watching the node's pods: %w", err)
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	context.AfterFunc(ctx, queue.ShutDown)
	for {
		key, ended := queue.Get()
		if ended {
			return nil
		}
		if err := r.look(ctx, key); err != nil {
			r.log.Warn("cannot repair a pod yet", "pod", key, "error", err)
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

// look repairs a pod if it is broken.
func (r *repairer) look(ctx context.Context, key string) error {
	object, there, err := r.pods.GetByKey(key)
	pod, ok := object.(*corev1.Pod)
	if err != nil || !there || !ok {
		return err
	}
	since, installed := r.since()
	if !installed || !r.broken(pod) || !pod.CreationTimestamp.Time.Before(since) {
		return nil
	}
	log := r.log.With("pod", key)
	switch {
	case r.DeletePods && metav1.GetControllerOf(pod) == nil:
		log.Warn("the pod started before the CNI plugin was on the node, and is not deleted, for nobody would make it anew")
		return nil
	case r.DeletePods:
		err = r.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		if err == nil {
			log.Info("deleted a pod that started before the CNI plugin was on the node")
		}
	case pod.Labels[r.LabelKey] != r.LabelValue:
		if err = r.label(ctx, pod); err == nil {
			log.Info("labelled a pod that started before the CNI plugin was on the node")
		}
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // gone, or another one of the name
		return nil
	}
	return err
}

func (r *repairer) label(ctx context.Context, pod *corev1.Pod) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "labels": map[string]string{r.LabelKey: r.LabelValue}}})
	if err != nil {
		return err
	}
	// By the sub-resource, which takes the lesser right.
	_, err = r.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// broken reports whether the pod's init container has found that it is not captured.
func (r *repairer) broken(pod *corev1.Pod) bool {
	if _, ours := pod.Annotations[r.Annotation]; !ours || pod.DeletionTimestamp != nil {
		return false
	}
	for _, s := range pod.Status.InitContainerStatuses {
		if s.Name == r.InitContainer {
			return r.found(s.State) || s.State.Running == nil && r.found(s.LastTerminationState)
		}
	}
	return false
}

func (r *repairer) found(s corev1.ContainerState) bool {
	return s.Terminated != nil && int(s.Terminated.ExitCode) == r.ExitCode
}
