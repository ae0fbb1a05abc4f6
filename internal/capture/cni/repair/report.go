package repair

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// component is the source of Events, as in Istio.
const component = "cni-repair"

// action is what is done to a broken pod. kind is the label of its metric and reason that of its
// Event, both as in Istio; do and done are verbs.
type action struct{ kind, reason, do, done string }

var (
	deletion = action{"delete", "DeleteBrokenPod", "delete", "deleted"}
	labeling = action{"label", "LabelBrokenPod", "label", "labeled"}
)

// reporter counts repaired pods and writes Events on them.
type reporter struct {
	repaired    *prometheus.CounterVec
	broadcaster record.EventBroadcaster
	events      record.EventRecorder
}

// newReporter returns a reporter that writes Events with client until ctx ends, and registers its
// metric unless to is nil. Events of one pod are merged, and limited in number.
func newReporter(ctx context.Context, client kubernetes.Interface, to prometheus.Registerer) *reporter {
	r := &reporter{
		repaired: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "istio_cni_repair_pods_repaired_total",
			Help: "Broken pods that were repaired, by what was done and its result.",
		}, []string{"type", "result"}),
		broadcaster: record.NewBroadcaster(record.WithContext(ctx)),
	}
	if to != nil {
		to.MustRegister(r.repaired)
	}
	r.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	r.events = r.broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
	return r
}

// report counts an action on a pod, and writes an Event with its result, which is err.
func (r *reporter) report(pod *corev1.Pod, a action, err error) {
	const broken = "the pod started before the CNI plugin was installed, and its traffic is not captured: "
	if err != nil {
		r.repaired.WithLabelValues(a.kind, "fail").Inc()
		r.events.Eventf(pod, corev1.EventTypeWarning, a.reason, broken+"cannot %s it: %v", a.do, err)
		return
	}
	r.repaired.WithLabelValues(a.kind, "success").Inc()
	r.events.Event(pod, corev1.EventTypeWarning, a.reason, broken+a.done)
}

// reportSkipped counts a broken pod that was left as it is.
func (r *reporter) reportSkipped(a action) { r.repaired.WithLabelValues(a.kind, "skip").Inc() }

// shutdown ends the writing of Events.
func (r *reporter) shutdown() { r.broadcaster.Shutdown() }
