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

// Options select broken pods and how they are repaired. The flags of the fields are Istio's.
type Options struct {
	Node          string // --repair-node-name
	DeletePods    bool   // --repair-delete-pods
	LabelPods     bool   // --repair-label-pods
	LabelKey      string // --repair-broken-pod-label-key
	LabelValue    string // --repair-broken-pod-label-value
	InitContainer string // --repair-init-container-name
	ExitCode      int    // --repair-init-container-exit-code
	Annotation    string // --repair-sidecar-annotation: pods without it are ignored
	LabelSelector string // --repair-label-selectors
}

// DefaultOptions returns Istio's defaults, which repair nothing.
func DefaultOptions() Options {
	return Options{
		LabelKey: "cni.istio.io/uninitialized", LabelValue: "true", InitContainer: "istio-validation", ExitCode: 126,
		Annotation: "sidecar.istio.io/status",
	}
}

// Enabled reports whether pods are repaired.
func (o Options) Enabled() bool { return o.DeletePods || o.LabelPods }

// resyncPeriod is how often pods are checked without an event, because the plugin may have been
// installed since.
const resyncPeriod = 10 * time.Second

// repairer checks the pods of a node.
type repairer struct {
	Options
	client         kubernetes.Interface
	installedSince func() (time.Time, bool)
	log            *slog.Logger
	pods           cache.Store
}

// Run repairs pods of the node, selected by o.LabelSelector, until ctx ends, and then returns nil.
// Without o.Node these are pods of all nodes. installedSince returns since when the plugin is
// installed, and whether it is. A pod that cannot be repaired is logged and retried with backoff.
func Run(
	ctx context.Context, o Options, client kubernetes.Interface,
	installedSince func() (time.Time, bool), log *slog.Logger,
) error {
	tweak := informers.WithTweakListOptions(func(l *metav1.ListOptions) {
		l.LabelSelector = o.LabelSelector
		if o.Node != "" {
			l.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", o.Node).String()
		}
	})
	factory := informers.NewSharedInformerFactoryWithOptions(client, resyncPeriod, tweak)
	informer := factory.Core().V1().Pods().Informer()
	r := &repairer{Options: o, client: client, installedSince: installedSince, log: log, pods: informer.GetStore()}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer queue.ShutDown()
	add := func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, object any) { add(object) }}
	if _, err := informer.AddEventHandler(handler); err != nil {
		return fmt.Errorf("watch the node's pods: %w", err)
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	context.AfterFunc(ctx, queue.ShutDown)
	for {
		key, ended := queue.Get()
		if ended {
			return nil
		}
		if err := r.repairPod(ctx, key); err != nil {
			r.log.Warn("cannot repair a pod, retrying", "pod", key, "error", err)
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

// repairPod deletes a pod if DeletePods is set, and otherwise labels it unless it has the label. It
// does nothing if the pod is not broken (isBroken), the plugin is not installed, or the pod is not
// older than its installation. A pod without a controller is not deleted but logged. A pod that no
// longer exists, was replaced, or has changed since it was read, is no error.
func (r *repairer) repairPod(ctx context.Context, key string) error {
	object, there, err := r.pods.GetByKey(key)
	pod, ok := object.(*corev1.Pod)
	if err != nil || !there || !ok {
		return err
	}
	since, installed := r.installedSince()
	if !installed || !r.isBroken(pod) || !pod.CreationTimestamp.Time.Before(since) {
		return nil
	}
	log := r.log.With("pod", key)
	switch {
	case r.DeletePods && metav1.GetControllerOf(pod) == nil:
		log.Warn("the pod started before the CNI plugin was installed, and is not deleted because it has no controller")
		return nil
	case r.DeletePods:
		unchanged := &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}
		err = r.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: unchanged})
		if err == nil {
			log.Info("deleted a pod that started before the CNI plugin was installed")
		}
	case pod.Labels[r.LabelKey] != r.LabelValue:
		if err = r.labelPod(ctx, pod); err == nil {
			log.Info("labeled a pod that started before the CNI plugin was installed")
		}
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // deleted, replaced, or changed and seen again
		return nil
	}
	return err
}

// labelPod sets the label r.LabelKey to r.LabelValue. If the pod has been replaced by one of the
// same name, the API server responds with a conflict, which is returned.
func (r *repairer) labelPod(ctx context.Context, pod *corev1.Pod) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "labels": map[string]string{r.LabelKey: r.LabelValue},
	}})
	if err != nil {
		return err
	}
	// The status sub-resource requires fewer permissions.
	pods := r.client.CoreV1().Pods(pod.Namespace)
	_, err = pods.Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// isBroken reports whether the pod's init container has ended with r.ExitCode, because the pod is
// not captured. It returns false for pods without the annotation and for pods being deleted. The
// container's last termination counts unless it is running again or has since succeeded.
func (r *repairer) isBroken(pod *corev1.Pod) bool {
	if _, ours := pod.Annotations[r.Annotation]; !ours || pod.DeletionTimestamp != nil {
		return false
	}
	for _, s := range pod.Status.InitContainerStatuses {
		if s.Name == r.InitContainer {
			succeeded := s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
			return r.exitedWithCode(s.State) ||
				s.State.Running == nil && !succeeded && r.exitedWithCode(s.LastTerminationState)
		}
	}
	return false
}

// exitedWithCode reports whether the container has terminated with ExitCode.
func (r *repairer) exitedWithCode(s corev1.ContainerState) bool {
	return s.Terminated != nil && int(s.Terminated.ExitCode) == r.ExitCode
}
