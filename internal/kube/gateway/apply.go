package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// resource returns the resource of a kind that is deployed for Gateways, and an empty one for other
// kinds.
func resource(kind string) schema.GroupVersionResource {
	switch kind {
	case "Deployment":
		return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	case "Service":
		return schema.GroupVersionResource{Version: "v1", Resource: "services"}
	case "ServiceAccount":
		return schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	case "HorizontalPodAutoscaler":
		return schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
	case "PodDisruptionBudget":
		return schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}
	}
	return schema.GroupVersionResource{}
}

// objectKey identifies a deployed object.
type objectKey struct {
	kind string
	types.NamespacedName
}

// appliedObject is the last apply of an object and its result.
type appliedObject struct {
	gateway types.NamespacedName
	hash    uint64
	state   managedState
}

// managedState identifies an object and the fields of it that FieldManager owns. Another manager
// that takes over a field, or removes it, changes it.
type managedState struct {
	uid    types.UID
	fields uint64
}

// stateOf returns the state of an object that the API server returned: its UID and the fields that
// were applied by FieldManager.
func stateOf(o metav1.Object) managedState {
	s := managedState{uid: o.GetUID()}
	for _, f := range o.GetManagedFields() {
		if f.Manager == FieldManager && f.Operation == metav1.ManagedFieldsOperationApply && f.FieldsV1 != nil {
			s.fields = xxhash.Sum64(sortedKeys(f.FieldsV1.GetRawBytes()))
		}
	}
	return s
}

// sortedKeys returns JSON with sorted keys: clients of metadata keep the order of the API server,
// and dynamic clients do not. Invalid JSON is returned as it is.
func sortedKeys(text []byte) []byte {
	var x any
	if err := json.Unmarshal(text, &x); err != nil {
		return text
	}
	sorted, err := json.Marshal(x)
	if err != nil {
		return text
	}
	return sorted
}

// requestTimeout bounds one request.
const requestTimeout = 10 * time.Second

// apply applies an object of a Gateway, and counts the outcome of the request. It writes nothing if
// manifest and object, in the watch or in the API server, are as after the last apply of this Run.
// An object without managedLabel that existed before the first apply is only logged. The selector
// of an existing Deployment replaces that of m, because it cannot be changed.
func (r *reconciler) apply(ctx context.Context, gateway types.NamespacedName, m manifest) error {
	u := &unstructured.Unstructured{Object: m}
	key := objectKey{u.GetKind(), types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}}
	hash, err := hashOf(m)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", key.kind, key.NamespacedName, err)
	}
	last, known := r.lastApply(key)
	isCurrent := func(o metav1.Object) bool { return known && last.hash == hash && stateOf(o) == last.state }
	if live := r.watches.owned(key); live != nil && isCurrent(live) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	existing, err := r.readExisting(ctx, key)
	if err != nil {
		return fmt.Errorf("read %s %s: %w", key.kind, key.NamespacedName, err)
	}
	if existing != nil {
		if isCurrent(existing) { // the watch is behind the last apply
			return nil
		}
		if !known && existing.GetLabels()[managedLabel] == "" {
			r.logUnmanaged(gateway, key)
			return nil
		}
	}
	if selector := selectorOf(existing); selector != nil {
		if err := unstructured.SetNestedStringMap(u.Object, selector, "spec", "selector",
			"matchLabels"); err != nil {
			return fmt.Errorf("set the selector of %s %s: %w", key.kind, key.NamespacedName, err)
		}
	}
	result, err := r.writeObject(ctx, key, u)
	if err != nil {
		return err
	}
	r.o.Log.Info("applied an object of a gateway", "gateway", gateway, "kind", key.kind, "name", key.Name)
	r.recordApply(key, appliedObject{gateway, hash, stateOf(result)})
	return nil
}

// writeObject applies an object in the API server, whose answer it returns, and counts the outcome.
// Fields that other managers own are taken over.
func (r *reconciler) writeObject(
	ctx context.Context,
	key objectKey,
	u *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	result, err := r.o.Client.Dynamic.Resource(resource(key.kind)).Namespace(key.Namespace).Apply(
		ctx, key.Name, u, metav1.ApplyOptions{FieldManager: FieldManager, Force: true},
	)
	if err != nil {
		r.o.Applied(key.kind, "failed")
		return nil, fmt.Errorf("apply %s %s: %w", key.kind, key.NamespacedName, err)
	}
	r.o.Applied(key.kind, "applied")
	return result, nil
}

// readExisting returns an object from the API server, not from a cache. It returns nil without an
// error if the object or its kind does not exist.
func (r *reconciler) readExisting(ctx context.Context, key objectKey) (*unstructured.Unstructured, error) {
	o, err := r.o.Client.Dynamic.Resource(resource(key.kind)).Namespace(key.Namespace).Get(ctx, key.Name,
		metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, err
}

// selectorOf returns the selector of a Deployment, or nil if o is nil or of another kind. A
// selector is immutable, and Istio before 1.24 selected pods by another label, which the pods still
// have.
func selectorOf(o *unstructured.Unstructured) map[string]string {
	if o == nil || o.GetKind() != "Deployment" {
		return nil
	}
	selector, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
	return selector
}

// logUnmanaged logs, once for each object, that an object without managedLabel exists, which is
// left as it is.
func (r *reconciler) logUnmanaged(gateway types.NamespacedName, key objectKey) {
	r.stateMu.Lock()
	defer r.stateMu.Unlock()
	if !r.unmanaged[key] {
		r.unmanaged[key] = true
		r.o.Log.Info("an object exists without the label "+managedLabel+", so it is left as it is",
			"gateway", gateway, "kind", key.kind, "name", key.Name)
	}
}

// deleteUnwanted deletes the HorizontalPodAutoscalers and PodDisruptionBudgets with this owner, of
// each of the two kinds that wanted does not contain. It tries all and returns the joined errors.
// Deployments and Services of another name stay, because clients may still use them.
func (r *reconciler) deleteUnwanted(
	ctx context.Context,
	gateway types.NamespacedName,
	owner types.UID,
	wanted []manifest,
) error {
	var errs []error
	for _, kind := range overlayKinds() {
		if !kind.optional {
			continue
		}
		isWanted := slices.ContainsFunc(wanted, func(m manifest) bool { return m["kind"] == kind.kind })
		for _, o := range r.watches.ownedBy(kind.kind, gateway.Namespace, owner) {
			if !isWanted {
				errs = append(errs, r.deleteObject(ctx, gateway, kind.kind, o))
			}
		}
	}
	return errors.Join(errs...)
}

// deleteObject deletes an object of a Gateway, counts and logs that, and drops the record of its
// last apply. A missing object is no error. If another object has its name now, it is not deleted
// and an error is returned.
func (r *reconciler) deleteObject(
	ctx context.Context,
	gateway types.NamespacedName,
	kind string,
	o *metav1.PartialObjectMetadata,
) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := r.o.Client.Dynamic.Resource(resource(kind)).Namespace(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &o.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		r.o.Applied(kind, "failed")
		return fmt.Errorf("delete %s %s/%s: %w", kind, o.Namespace, o.Name, err)
	}
	r.o.Applied(kind, "deleted")
	r.o.Log.Info("deleted an object that no overlay requests", "gateway", gateway, "kind", kind, "name", o.Name)
	r.stateMu.Lock()
	defer r.stateMu.Unlock()
	delete(r.applied, objectKey{kind, types.NamespacedName{Namespace: o.Namespace, Name: o.Name}})
	return nil
}

// lastApply returns what this Run applied last for an object, and false if nothing was.
func (r *reconciler) lastApply(key objectKey) (appliedObject, bool) {
	r.stateMu.Lock()
	defer r.stateMu.Unlock()
	a, known := r.applied[key]
	return a, known
}

// recordApply records what was applied last for an object.
func (r *reconciler) recordApply(key objectKey, a appliedObject) {
	r.stateMu.Lock()
	defer r.stateMu.Unlock()
	r.applied[key] = a
}

// forget drops the records of applied objects of a Gateway that is no longer deployed. It deletes
// no objects.
func (r *reconciler) forget(gateway types.NamespacedName) {
	r.stateMu.Lock()
	defer r.stateMu.Unlock()
	for key, a := range r.applied {
		if a.gateway == gateway {
			delete(r.applied, key)
		}
	}
}

// hashOf returns the hash of a manifest. The JSON encoding sorts the keys of maps.
func hashOf(m manifest) (uint64, error) {
	text, err := json.Marshal(m)
	return xxhash.Sum64(text), err
}
