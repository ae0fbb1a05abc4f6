package kube

import (
	"maps"
	"sync"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// interner makes objects share the memory of texts that many objects of a cluster have in common,
// such as labels and names of nodes, because decoding makes a copy for each object. It can be used
// by several goroutines at a time.
type interner struct {
	mu     sync.Mutex
	labels map[string]string // of the previous object
}

// internObject replaces such texts of an object in place by their shared copies.
func (n *interner) internObject(object metav1.Object) {
	object.SetNamespace(intern(object.GetNamespace()))
	object.SetLabels(n.internLabels(object.GetLabels()))
	switch o := object.(type) {
	case *corev1.Pod:
		internPod(o)
	case *discoveryv1.EndpointSlice:
		for i := range o.Endpoints {
			internEndpoint(&o.Endpoints[i])
		}
	}
}

// internLabels returns a map with the same content and shared texts. It is the map of the previous
// object if that is equal: the pods of a ReplicaSet follow each other in a list.
func (n *interner) internLabels(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return labels
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if maps.Equal(labels, n.labels) {
		return n.labels
	}
	n.labels = make(map[string]string, len(labels))
	for key, value := range labels {
		n.labels[intern(key)] = intern(value)
	}
	return n.labels
}

// internPod interns the names in a pod that other pods have too.
func internPod(p *corev1.Pod) {
	for i := range p.OwnerReferences {
		o := &p.OwnerReferences[i]
		o.Kind, o.Name = intern(o.Kind), intern(o.Name)
	}
	spec := &p.Spec
	spec.NodeName, spec.ServiceAccountName = intern(spec.NodeName), intern(spec.ServiceAccountName)
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			for j := range containers[i].Ports {
				containers[i].Ports[j].Name = intern(containers[i].Ports[j].Name)
			}
		}
	}
}

// yes and no are the conditions of all endpoints.
var yes, no = true, false

// internEndpoint interns the names in an endpoint that other endpoints have too, and its
// conditions.
func internEndpoint(e *discoveryv1.Endpoint) {
	for _, condition := range []**bool{&e.Conditions.Ready, &e.Conditions.Serving, &e.Conditions.Terminating} {
		switch {
		case *condition == nil:
		case **condition:
			*condition = &yes
		default:
			*condition = &no
		}
	}
	for _, text := range []*string{e.NodeName, e.Zone} {
		if text != nil {
			*text = intern(*text)
		}
	}
	if r := e.TargetRef; r != nil {
		r.Kind, r.Namespace = intern(r.Kind), intern(r.Namespace)
	}
}

// intern returns the copy of a text that all callers share while any of them uses it.
func intern(text string) string {
	if text == "" {
		return ""
	}
	return unique.Make(text).Value()
}
