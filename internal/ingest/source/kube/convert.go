package kube

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// received is an object from the API server after conversion. It embeds the metadata by which
// client-go identifies it.
type received struct {
	metav1.ObjectMeta // name, namespace, UID, resource version and generation
	// config is nil if the object is invalid, or belongs to another control plane. In the latter
	// case there are no problems.
	config   *config.Config
	problems []config.Problem
	// foreign is set if the object belongs to another control plane's revision.
	foreign bool
}

// name returns the namespace and name of the object.
func (a *received) name() types.NamespacedName {
	return types.NamespacedName{Namespace: a.Namespace, Name: a.Name}
}

// convertObject returns an object of the kind as received, with its Config, and with Problems if it
// is invalid. An object with errors has no Config. An object of another revision is only marked as
// foreign.
func convertObject(kind api.KindInfo, revision string, texts *interner, object metav1.Object) *received {
	a := &received{ObjectMeta: metav1.ObjectMeta{
		Name: object.GetName(), Namespace: intern(object.GetNamespace()), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(),
		Generation:      object.GetGeneration(),
	}}
	raw, custom := object.(*rawObject)
	if isForeign(kind, object.GetLabels(), revision) {
		a.foreign = true
		return a
	}
	switch {
	case custom && kind.Istio():
		d := decode.Stored(raw.body)
		a.config, a.problems = d.Config, d.Problems
		if a.config != nil {
			// a copy of the object, which is not part of the hash
			delete(a.config.Annotations, corev1.LastAppliedConfigAnnotation)
		}
	case custom:
		typed := kind.NewObject()
		if err := json.Unmarshal(raw.body, typed); err != nil {
			key := config.Key{Kind: kind.Kind, Namespace: a.Namespace, Name: a.Name}
			a.problems = []config.Problem{
				{
					Key:      key,
					Severity: config.Error,
					Reason:   fmt.Sprintf("cannot be read as %s: %v", kind.Kind.Name(), err),
				},
			}
			return a
		}
		a.setConfig(kind, texts, typed)
	default:
		a.setConfig(kind, texts, object)
	}
	return a
}

// setConfig sets the Config of an object of a Kubernetes kind, which becomes its spec, and its
// Problems. An object with errors gets no Config. It trims the object in place and interns its
// texts.
func (a *received) setConfig(kind api.KindInfo, texts *interner, object metav1.Object) {
	key := config.Key{Kind: kind.Kind, Namespace: a.Namespace, Name: a.Name}
	trimObject(object)
	texts.internObject(object)
	c, err := config.New(config.Meta{
		Key: key, Labels: object.GetLabels(), Annotations: object.GetAnnotations(),
		Created:         object.GetCreationTimestamp().Time,
		ResourceVersion: a.ResourceVersion, Generation: a.Generation,
	}, object)
	if err != nil {
		a.problems = []config.Problem{{Key: key, Severity: config.Error, Reason: err.Error()}}
		return
	}
	a.config, a.problems = c, config.Validate(c)
	for _, p := range a.problems {
		if p.Severity == config.Error {
			a.config = nil
		}
	}
}

// isForeign reports whether the control plane of a revision ignores an object, because its label
// istio.io/rev has another value. Objects without the label and built-in kinds are not ignored, and
// none are if revision is empty. Gateways of the Gateway API are never ignored: the label may be a
// tag of the revision, and proxies keep their listeners while the label of their Gateway changes.
func isForeign(kind api.KindInfo, labels map[string]string, revision string) bool {
	if !kind.Custom || kind.Kind == api.KubernetesGateway || revision == "" {
		return false
	}
	of, labelled := labels[label.IoIstioRev.Name]
	return labelled && of != revision
}
