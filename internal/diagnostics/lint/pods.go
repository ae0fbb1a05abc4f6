package lint

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/diagnostics/diff/offline"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// readTemplates adds a pod NAME-template to r.templates for the template of each Deployment,
// StatefulSet and DaemonSet. Objects that select workloads are checked against these pods. A
// template is left out if its pod is invalid or an object has that name already.
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

// runningConfigs returns the pods of templates and the objects that could be decoded. Of Pods and
// Services without an address it returns copies that have one, and such pods are ready, as if a
// cluster ran them.
func (r *analysisRun) runningConfigs() []*config.Config {
	list := r.templates
	for _, o := range r.objects {
		if o.config != nil {
			list = append(list, o.config)
		}
	}
	var addresses offline.Addresses
	out := make([]*config.Config, 0, len(list))
	for _, c := range list {
		spec := addresses.Assign(c.Key, c.Spec)
		if spec == c.Spec {
			out = append(out, c)
		} else if next, err := config.New(c.Meta, spec); err == nil {
			out = append(out, next)
		}
	}
	return out
}
