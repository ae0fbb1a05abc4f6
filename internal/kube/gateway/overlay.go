package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// overlayKind is a key of a ConfigMap with overlays, and the kind of object that it changes.
type overlayKind struct {
	key, kind string
	schema    any // an empty object, for its merge keys
	// optional is true for objects that exist only if there is an overlay for them.
	optional bool
}

// overlayKinds returns the kinds of objects that overlays may change, each with its key in the
// ConfigMap. Objects of the optional kinds, autoscaler and disruption budget, exist only with an
// overlay.
func overlayKinds() []overlayKind {
	return []overlayKind{
		{key: "deployment", kind: "Deployment", schema: appsv1.Deployment{}},
		{key: "service", kind: "Service", schema: corev1.Service{}},
		{key: "serviceAccount", kind: "ServiceAccount", schema: corev1.ServiceAccount{}},
		{
			key: "horizontalPodAutoscaler", kind: "HorizontalPodAutoscaler",
			schema: autoscalingv2.HorizontalPodAutoscaler{}, optional: true,
		},
		{key: "podDisruptionBudget", kind: "PodDisruptionBudget", schema: policyv1.PodDisruptionBudget{},
			optional: true},
	}
}

// CheckOverlays returns an error if the data of a ConfigMap are not valid overlays: if a key is
// unknown, or a value is not a YAML object. An empty value is valid. The API server checks the
// fields.
func CheckOverlays(data map[string]string) error {
	var keys []string
	for _, k := range overlayKinds() {
		keys = append(keys, k.key)
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if !slices.Contains(keys, key) {
			return fmt.Errorf("unknown key %q, want one of %q", key, keys)
		}
		if _, err := parseOverlay(data[key]); err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
	}
	return nil
}

// parseOverlay returns the object in a YAML text, in the form of decoded JSON. An empty text has no
// fields. It returns an error if the text is no object.
func parseOverlay(text string) (map[string]any, error) {
	m := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		return nil, fmt.Errorf("parse the overlay: %w", err)
	}
	return m, nil
}

// applyOverlays returns the objects with the overlays merged in order, as strategic merge patches.
// Optional objects without an overlay are dropped. It returns an error if an overlay is invalid, or
// changes the identity or the owner of an object.
func applyOverlays(objects []manifest, overlays []map[string]string) ([]manifest, error) {
	for _, data := range overlays {
		if err := CheckOverlays(data); err != nil {
			return nil, err
		}
	}
	var out []manifest
	for _, m := range objects {
		i := slices.IndexFunc(overlayKinds(), func(k overlayKind) bool { return k.kind == m["kind"] })
		kind := overlayKinds()[i]
		merged, changed, err := kind.merge(m, overlays)
		if err != nil {
			return nil, fmt.Errorf("overlay %q: %w", kind.key, err)
		}
		if changed || !kind.optional {
			out = append(out, merged)
		}
	}
	return out, nil
}

// merge returns the object with the overlays of its kind merged in their order, and reports whether
// there was one. m is not modified. It returns an error for an overlay that is invalid or changes
// the parts that identityOf returns.
func (k overlayKind) merge(m manifest, overlays []map[string]string) (merged manifest, changed bool, err error) {
	whole, err := decoded(m)
	if err != nil {
		return nil, false, err
	}
	before := identityOf(whole)
	for _, data := range overlays {
		text, some := data[k.key]
		if !some {
			continue
		}
		patch, err := parseOverlay(text)
		if err != nil {
			return nil, false, err
		}
		if whole, err = strategicpatch.StrategicMergeMapPatch(whole, patch, k.schema); err != nil {
			return nil, false, fmt.Errorf("merge the overlay: %w", err)
		}
		changed = true
	}
	if !reflect.DeepEqual(identityOf(whole), before) {
		return nil, false, fmt.Errorf("an overlay may change only labels, annotations and the spec")
	}
	return whole, changed, nil
}

// decoded returns an object in the form of decoded JSON, which shares nothing with m.
func decoded(m manifest) (map[string]any, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	whole := map[string]any{}
	return whole, json.Unmarshal(text, &whole)
}

// identityOf returns the parts of an object that overlays must not change, in a copy. These are
// everything besides the spec or the fields of a ServiceAccount, the annotations, and labels other
// than nameLabel, classLabel and managedLabel.
func identityOf(whole map[string]any) map[string]any {
	rest := maps.Clone(whole)
	for _, field := range []string{"spec", "automountServiceAccountToken", "imagePullSecrets", "secrets"} {
		delete(rest, field)
	}
	if meta, ok := rest["metadata"].(map[string]any); ok {
		meta = maps.Clone(meta)
		labels, _ := meta["labels"].(map[string]any)
		meta["labels"] = map[string]any{
			nameLabel: labels[nameLabel], classLabel: labels[classLabel], managedLabel: labels[managedLabel],
		}
		delete(meta, "annotations")
		rest["metadata"] = meta
	}
	return rest
}
