package autoregister

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	networking "istio.io/api/networking/v1alpha3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// fieldManager is the manager in managedFields.
const fieldManager = "pilot-discovery"

// KubernetesStore is a Store in an API server.
type KubernetesStore struct {
	entries dynamic.NamespaceableResourceInterface
	groups  metadata.Getter
	group   schema.GroupVersionResource
}

var _ Store = (*KubernetesStore)(nil)

// NewKubernetesStore returns a KubernetesStore. It sends no request.
func NewKubernetesStore(d dynamic.Interface, m metadata.Interface) *KubernetesStore {
	group := resourceOf(api.WorkloadGroup)
	return &KubernetesStore{entries: d.Resource(resourceOf(api.WorkloadEntry)), groups: m.Resource(group), group: group}
}

// resourceOf returns the resource of a kind in its storage version.
func resourceOf(kind api.Kind) schema.GroupVersionResource {
	k, _ := api.Info(kind) // both kinds are in the table
	return schema.GroupVersionResource{Group: k.Group, Version: k.Versions[0], Resource: k.Plural}
}

// Get requests an entry from the API server. It returns nil without an error if there is none, and
// an error if the request fails or the entry cannot be decoded (entryFrom).
func (s *KubernetesStore) Get(ctx context.Context, namespace, name string) (*Entry, error) {
	u, err := s.entries.Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get WorkloadEntry %s/%s: %w", namespace, name, err)
	}
	return entryFrom(u)
}

// entryFrom returns the Entry of a WorkloadEntry. Unknown fields and invalid conditions are
// ignored; it returns an error for an invalid spec. A missing spec is empty.
func entryFrom(u *unstructured.Unstructured) (*Entry, error) {
	e := &Entry{
		Namespace:   u.GetNamespace(),
		Name:        u.GetName(),
		Version:     u.GetResourceVersion(),
		Labels:      u.GetLabels(),
		Annotations: u.GetAnnotations(),
		Spec:        new(networking.WorkloadEntry),
	}
	// invalid conditions are ignored
	e.Conditions, _, _ = unstructured.NestedSlice(u.Object, "status", "conditions")
	text, err := json.Marshal(u.Object["spec"])
	if err == nil && u.Object["spec"] != nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, e.Spec)
	}
	if err != nil {
		return nil, fmt.Errorf("decode WorkloadEntry %s/%s: %w", e.Namespace, e.Name, err)
	}
	return e, nil
}

// Create creates an entry with the WorkloadGroup as its owner; status conditions are not written.
// It returns ErrConflict if the entry exists, and a RegistrationError if the API server rejects it
// as invalid. A missing WorkloadGroup, and any other failure, is an error of another type.
func (s *KubernetesStore) Create(ctx context.Context, e *Entry) error {
	what := fmt.Sprintf("create WorkloadEntry %s/%s", e.Namespace, e.Name)
	group, err := s.groups.Namespace(e.Namespace).Get(ctx, e.Group.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("%s: get WorkloadGroup %q: %w", what, e.Group.Name, err)
	}
	text, err := protojson.Marshal(e.Spec)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetAPIVersion(s.group.GroupVersion().String())
	u.SetKind(string(api.WorkloadEntry))
	u.SetNamespace(e.Namespace)
	u.SetName(e.Name)
	u.SetLabels(e.Labels)
	u.SetAnnotations(e.Annotations)
	controls := true
	u.SetOwnerReferences([]metav1.OwnerReference{
		{
			APIVersion: u.GetAPIVersion(),
			Kind:       string(api.WorkloadGroup),
			Name:       group.Name,
			UID:        group.UID,
			Controller: &controls,
		},
	})
	_, err = s.entries.Namespace(e.Namespace).Create(ctx, u, metav1.CreateOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsAlreadyExists(err):
		return ErrConflict
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return &RegistrationError{Reason: fmt.Sprintf("%s: %v", what, err)}
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Annotate sets annotations of an entry; nil values remove them. It returns ErrConflict if the
// entry changed since e was read, or is gone.
func (s *KubernetesStore) Annotate(ctx context.Context, e *Entry, annotations map[string]any) error {
	return s.patchEntry(
		ctx,
		e,
		map[string]any{"metadata": map[string]any{"resourceVersion": e.Version, "annotations": annotations}},
	)
}

// SetConditions replaces the conditions in the status of an entry. It returns ErrConflict if the
// entry changed since e was read, or is gone.
func (s *KubernetesStore) SetConditions(ctx context.Context, e *Entry, conditions []any) error {
	return s.patchEntry(ctx, e, map[string]any{
		"metadata": map[string]any{"resourceVersion": e.Version}, "status": map[string]any{"conditions": conditions},
	}, "status")
}

// patchEntry applies a merge patch, which must contain the resource version, to an entry or its
// subresource. It returns ErrConflict if the entry changed since e was read, or is gone.
func (s *KubernetesStore) patchEntry(
	ctx context.Context,
	e *Entry,
	patch map[string]any,
	subresources ...string,
) error {
	body, err := json.Marshal(patch)
	if err == nil {
		_, err = s.entries.Namespace(e.Namespace).Patch(
			ctx,
			e.Name,
			types.MergePatchType,
			body,
			metav1.PatchOptions{FieldManager: fieldManager},
			subresources...)
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return ErrConflict
	case err != nil:
		return fmt.Errorf("patch WorkloadEntry %s/%s: %w", e.Namespace, e.Name, err)
	}
	return nil
}

// Delete deletes an entry. It returns ErrConflict if the entry changed since the caller has read
// it, and nil if it is gone.
func (s *KubernetesStore) Delete(ctx context.Context, e *Entry) error {
	err := s.entries.Namespace(e.Namespace).Delete(
		ctx,
		e.Name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &e.Version}},
	)
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return ErrConflict
	}
	return fmt.Errorf("delete WorkloadEntry %s/%s: %w", e.Namespace, e.Name, err)
}
