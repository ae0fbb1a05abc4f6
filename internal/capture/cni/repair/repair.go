package repair

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	InitContainer string // --repair-init-container-name; if empty, every init container counts
	ExitCode      int    // --repair-init-container-exit-code; 0: every failure
	Annotation    string // --repair-sidecar-annotation: pods without it are ignored, if it is set
	LabelSelector string // --repair-label-selectors
	FieldSelector string // --repair-field-selectors
	// TerminationMessage is the message with which the init container ends in broken pods, without
	// surrounding spaces (--repair-init-container-termination-message). If empty, every one matches.
	TerminationMessage string
	// Metrics is where the metrics are registered. If nil, they are not.
	Metrics prometheus.Registerer
}

// DefaultOptions returns Istio's defaults, for which Enabled returns false.
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
	reporter       *reporter
	// unowned are the pods without a controller that were logged, by key.
	unowned map[string]types.UID
}

// Run deletes broken pods of the node or, without o.DeletePods, labels them, whatever Enabled
// returns, until ctx ends. Without o.Node these are pods of all nodes; o.LabelSelector and
// o.FieldSelector restrict them. installedSince returns since when the plugin is installed, and
// whether it is; a failed pod is logged and retried with backoff. Run returns nil when ctx has
// ended, and an error for an invalid FieldSelector.
func Run(
	ctx context.Context, o Options, client kubernetes.Interface,
	installedSince func() (time.Time, bool), log *slog.Logger,
) error {
	selector, err := fields.ParseSelector(o.FieldSelector)
	if err != nil {
		return fmt.Errorf("--repair-field-selectors: %w", err)
	}
	if o.Node != "" {
		selector = fields.AndSelectors(selector, fields.OneTermEqualSelector("spec.nodeName", o.Node))
	}
	tweak := informers.WithTweakListOptions(func(l *metav1.ListOptions) {
		l.LabelSelector, l.FieldSelector = o.LabelSelector, selector.String()
	})
	factory := informers.NewSharedInformerFactoryWithOptions(client, resyncPeriod, tweak)
	informer := factory.Core().V1().Pods().Informer()
	r := &repairer{
		Options: o, client: client, installedSince: installedSince, log: log, pods: informer.GetStore(),
		reporter: newReporter(ctx, client, o.Metrics), unowned: map[string]types.UID{},
	}
	defer r.reporter.shutdown()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer queue.ShutDown()
	add := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, object any) { add(object) }, DeleteFunc: add,
	}
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
// older than its installation. A pod without a controller is not deleted, and is logged once. A pod
// that no longer exists, was replaced, or has changed since it was read, is no error.
func (r *repairer) repairPod(ctx context.Context, key string) error {
	object, there, err := r.pods.GetByKey(key)
	pod, ok := object.(*corev1.Pod)
	if err != nil || !there || !ok {
		delete(r.unowned, key)
		return err
	}
	since, installed := r.installedSince()
	if !installed || !r.isBroken(pod) || !pod.CreationTimestamp.Time.Before(since) {
		return nil
	}
	log := r.log.With("pod", key)
	switch {
	case r.DeletePods && metav1.GetControllerOf(pod) == nil:
		if r.unowned[key] != pod.UID {
			r.unowned[key] = pod.UID
			log.Warn("the pod started before the CNI plugin was installed, and is not deleted because it has no controller")
		}
		r.reporter.reportSkipped(deletion)
		return nil
	case r.DeletePods:
		unchanged := &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}
		err = r.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: unchanged})
		return r.finish(pod, deletion, err, log)
	case pod.Labels[r.LabelKey] == r.LabelValue:
		r.reporter.reportSkipped(labeling)
		return nil
	default:
		return r.finish(pod, labeling, r.labelPod(ctx, pod), log)
	}
}

// finish logs and reports the result of an action on a pod, and returns err. It does neither, and
// returns nil, if the pod was deleted or replaced meanwhile, or has changed and will be seen again.
func (r *repairer) finish(pod *corev1.Pod, a action, err error, log *slog.Logger) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	r.reporter.report(pod, a, err)
	if err == nil {
		log.Info(a.done + " a pod that started before the CNI plugin was installed")
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

// isBroken reports whether an init container of the pod has failed (hasFailed), because the pod is
// not captured. It returns false for pods without the annotation and for pods being deleted.
func (r *repairer) isBroken(pod *corev1.Pod) bool {
	_, injected := pod.Annotations[r.Annotation]
	if r.Annotation != "" && !injected || pod.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, r.hasFailed)
}

// hasFailed reports whether s is of r.InitContainer and the container has ended in the way that
// broken pods do. Its last termination counts unless it is running again or has since succeeded.
func (r *repairer) hasFailed(s corev1.ContainerStatus) bool {
	succeeded := s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
	if r.InitContainer != "" && s.Name != r.InitContainer || succeeded || s.State.Running != nil {
		return false
	}
	return r.isFailure(s.State.Terminated) || r.isFailure(s.LastTerminationState.Terminated)
}

// isFailure reports whether a container has failed with ExitCode and TerminationMessage, as far as
// these are set.
func (r *repairer) isFailure(t *corev1.ContainerStateTerminated) bool {
	message := strings.TrimSpace(r.TerminationMessage)
	return t != nil && t.ExitCode != 0 && (r.ExitCode == 0 || int(t.ExitCode) == r.ExitCode) &&
		(message == "" || strings.TrimSpace(t.Message) == message)
}
