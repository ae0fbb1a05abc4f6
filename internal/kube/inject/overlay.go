package inject

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// overlay lays a part of a pod over a pod, as kubectl patch --type=strategic does: lists are joined by name where Kubernetes
// has it so. The pod that it is given stays as it is.
func overlay(pod *corev1.Pod, part map[string]any) (*corev1.Pod, error) {
	below, err := tree(pod)
	if err != nil {
		return nil, err
	}
	joined, err := strategicpatch.StrategicMergeMapPatch(below, part, corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("merge into the pod: %w", err)
	}
	body, err := json.Marshal(joined)
	if err != nil {
		return nil, fmt.Errorf("merge into the pod: %w", err)
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(body, out); err != nil {
		return nil, fmt.Errorf("the result is no pod: %w", err)
	}
	return out, nil
}

// overlayContainer lays one container over the pod's of that name.
func overlayContainer(pod *corev1.Pod, list string, c corev1.Container) (*corev1.Pod, error) {
	part, err := tree(c)
	if err != nil {
		return nil, err
	}
	if c.Image == "" { // of the JSON form of a container only the name is always there
		delete(part, "image")
	}
	return overlay(pod, map[string]any{"spec": map[string]any{list: []any{part}}})
}

// tree gives the JSON form of a value.
func tree(v any) (map[string]any, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	return m, json.Unmarshal(body, &m)
}

// parsePart reads what a template printed.
func parsePart(text []byte) (map[string]any, error) {
	var m map[string]any
	if err := yaml.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("the template does not print a part of a pod: %w", err)
	}
	return m, nil
}
