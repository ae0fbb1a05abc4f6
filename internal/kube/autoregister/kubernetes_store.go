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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/meshpilot/meshpilot/internal/kube/served"
	"github.com/meshpilot/meshpilot/internal/model/api"
)

// fieldManager is the manager in managedFields.
const fieldManager = "pilot-discovery"

// KubernetesStore is a Store in an API server. It uses the versions of WorkloadEntry and
// WorkloadGroup that the API server serves; if it serves none, all its methods return an error.
type KubernetesStore struct {
	dynamic  dynamic.Interface
	metadata metadata.Interface
	versions *served.Versions
}

var _ Store = (*KubernetesStore)(nil)

// NewKubernetesStore returns a KubernetesStore. It sends no request.
func NewKubernetesStore(d dynamic.Interface, m metadata.Interface, v *served.Versions) *KubernetesStore {
	return &KubernetesStore{dynamic: d, metadata: m, versions: v}
}

// entries returns the client for the WorkloadEntries of a namespace. It returns an error if the
// served version of the kind cannot be found.
func (s *KubernetesStore) entries(ctx context.Context, namespace string) (dynamic.ResourceInterface, error) {
	resource, err := s.versions.Resource(ctx, api.WorkloadEntry)
	if err != nil {
		return nil, err
	}
	return s.dynamic.Resource(resource).Namespace(namespace), nil
}

// Get requests an entry from the API server. It returns nil without an error if there is none, and
// an error if the request fails or the entry cannot be decoded (entryFrom).
func (s *KubernetesStore) Get(ctx context.Context, namespace, name string) (*Entry, error) {
	var u *unstructured.Unstructured
	entries, err := s.entries(ctx, namespace)
	if err == nil {
		u, err = entries.Get(ctx, name, metav1.GetOptions{})
	}
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
	u, err := s.newObject(ctx, e)
	var entries dynamic.ResourceInterface
	if err == nil {
		entries, err = s.entries(ctx, e.Namespace)
	}
	if err == nil {
		_, err = entries.Create(ctx, u, metav1.CreateOptions{FieldManager: fieldManager})
	}
	what := fmt.Sprintf("create WorkloadEntry %s/%s", e.Namespace, e.Name)
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

// newObject returns the WorkloadEntry to create for e, with its WorkloadGroup as owner. It returns
// an error if the group cannot be read, or if a kind is not served.
func (s *KubernetesStore) newObject(ctx context.Context, e *Entry) (*unstructured.Unstructured, error) {
	groups, err := s.versions.Resource(ctx, api.WorkloadGroup)
	if err != nil {
		return nil, err
	}
	entries, err := s.versions.Resource(ctx, api.WorkloadEntry)
	if err != nil {
		return nil, err
	}
	group, err := s.metadata.Resource(groups).Namespace(e.Namespace).Get(ctx, e.Group.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get WorkloadGroup %q: %w", e.Group.Name, err)
	}
	text, err := protojson.Marshal(e.Spec)
	if err != nil {
		return nil, err
	}
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetAPIVersion(entries.GroupVersion().String())
	u.SetKind(string(api.WorkloadEntry))
	u.SetNamespace(e.Namespace)
	u.SetName(e.Name)
	u.SetLabels(e.Labels)
	u.SetAnnotations(e.Annotations)
	controls := true
	u.SetOwnerReferences([]metav1.OwnerReference{
		{
			APIVersion: groups.GroupVersion().String(),
			Kind:       string(api.WorkloadGroup),
			Name:       group.Name,
			UID:        group.UID,
			Controller: &controls,
		},
	})
	return u, nil
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
	var entries dynamic.ResourceInterface
	if err == nil {
		entries, err = s.entries(ctx, e.Namespace)
	}
	if err == nil {
		_, err = entries.Patch(
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
	entries, err := s.entries(ctx, e.Namespace)
	if err == nil {
		err = entries.Delete(
			ctx,
			e.Name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &e.Version}},
		)
	}
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return ErrConflict
	}
	return fmt.Errorf("delete WorkloadEntry %s/%s: %w", e.Namespace, e.Name, err)
}
