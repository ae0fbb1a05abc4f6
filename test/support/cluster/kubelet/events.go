package kubelet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// events emits Events of Pods for facts that the status does not show.
type events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

func newEvents(ctx context.Context, client kubernetes.Interface, node string) *events {
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return &events{b, b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: node})}
}

func (e *events) emitWarning(object *corev1.Pod, reason, format string, args ...any) {
	e.recorder.Event(object, corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...))
}

func (e *events) close() { e.broadcaster.Shutdown() }
