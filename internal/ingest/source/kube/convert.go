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

// arrival is an object as it came from the API server, converted. client-go keys it by its metadata, of which it has what that
// takes.
type arrival struct {
	metav1.ObjectMeta // name, namespace, UID, resource version and generation
	// config is nil if the object cannot be used, or is another control plane's (then there are no problems).
	config   *config.Config
	problems []config.Problem
	// foreign says that the object is another control plane's.
	foreign bool
}

func (a *arrival) name() types.NamespacedName {
	return types.NamespacedName{Namespace: a.Namespace, Name: a.Name}
}

// arrive converts an object of the kind.
func arrive(kind api.KindInfo, revision string, object metav1.Object) *arrival {
	a := &arrival{ObjectMeta: metav1.ObjectMeta{
		Name: object.GetName(), Namespace: object.GetNamespace(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
		Generation: object.GetGeneration(),
	}}
	raw, custom := object.(*rawObject)
	if kind.Custom && !inRevision(object.GetLabels(), revision) {
		a.foreign = true
		return a
	}
	switch {
	case custom && kind.Istio():
		d := decode.Stored(raw.body)
		a.config, a.problems = d.Config, d.Problems
		if a.config != nil {
			delete(a.config.Annotations, corev1.LastAppliedConfigAnnotation) // the object once more, which no hash is taken over
		}
	case custom:
		typed := kind.NewObject()
		if err := json.Unmarshal(raw.body, typed); err != nil {
			key := config.Key{Kind: kind.Kind, Namespace: a.Namespace, Name: a.Name}
			a.problems = []config.Problem{{Key: key, Severity: config.Error, Reason: fmt.Sprintf("cannot be read as %s: %v", kind.Kind.Name(), err)}}
			return a
		}
		a.take(kind, typed)
	default:
		a.take(kind, object)
	}
	return a
}

// take makes a Config of an object of a Kubernetes kind, which becomes its spec.
func (a *arrival) take(kind api.KindInfo, object metav1.Object) {
	key := config.Key{Kind: kind.Kind, Namespace: a.Namespace, Name: a.Name}
	trim(object)
	c, err := config.New(config.Meta{
		Key: key, Labels: object.GetLabels(), Annotations: object.GetAnnotations(), Created: object.GetCreationTimestamp().Time,
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

// inRevision says whether an object is read by the control plane of a revision: one without the label is read by all.
func inRevision(labels map[string]string, revision string) bool {
	of, labelled := labels[label.IoIstioRev.Name]
	return !labelled || revision == "" || of == revision
}
