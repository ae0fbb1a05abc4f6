package lint

import (
	"net/netip"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// readTemplates adds a pod to r.templates for the template of each Deployment, StatefulSet and
// DaemonSet, as a cluster would. Objects that select workloads are checked against these pods.
func (r *analysisRun) readTemplates() {
	for _, o := range r.ofKind(deployment, "StatefulSet", "DaemonSet") {
		template := decodeAs[appsv1.Deployment](o).Spec.Template
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Name, pod.Namespace = o.key.Name+"-"+"template", o.key.Namespace
		k := config.Key{Kind: api.Pod, Namespace: pod.Namespace, Name: pod.Name}
		c, err := config.New(
			config.Meta{Key: k, Labels: pod.Labels, Annotations: pod.Annotations, Origin: o.origin()},
			pod,
		)
		if err == nil && r.byKey[k] == nil {
			r.templates = append(r.templates, c)
		}
	}
}

// runningConfigs returns the decoded objects and the pods of templates. Pods without an address get
// one and are ready, as if a cluster ran them.
func (r *analysisRun) runningConfigs() []*config.Config {
	list := r.templates
	for _, o := range r.objects {
		if o.config != nil {
			list = append(list, o.config)
		}
	}
	address := netip.AddrFrom4([4]byte{240, 0, 0, 0}) // reserved, so that no object has it
	out := make([]*config.Config, 0, len(list))
	for _, c := range list {
		pod, ok := c.Spec.(*corev1.Pod)
		if !ok || pod.Status.PodIP != "" {
			out = append(out, c)
			continue
		}
		address = address.Next()
		running := pod.DeepCopy()
		running.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: address.String(), PodIPs: []corev1.PodIP{{IP: address.String()}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}
		if next, err := config.New(c.Meta, running); err == nil {
			out = append(out, next)
		}
	}
	return out
}
