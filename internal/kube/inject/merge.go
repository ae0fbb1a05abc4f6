package inject

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// mergeIntoPod returns a new pod with part merged into it, as kubectl patch --type=strategic does:
// lists with a merge key are merged by it. It returns an error if the result is no pod.
func mergeIntoPod(pod *corev1.Pod, part map[string]any) (*corev1.Pod, error) {
	below, err := toJSONMap(pod)
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
		return nil, fmt.Errorf("decode the merged pod: %w", err)
	}
	return out, nil
}

// mergeContainer returns a new pod in which c is merged into the container of its name in a list
// (containers or initContainers). If there is none, c is added. An empty image of c does not
// override.
func mergeContainer(pod *corev1.Pod, list string, c corev1.Container) (*corev1.Pod, error) {
	part, err := toJSONMap(c)
	if err != nil {
		return nil, err
	}
	if c.Image == "" { // an empty image would override; only name is required
		delete(part, "image")
	}
	return mergeIntoPod(pod, map[string]any{"spec": map[string]any{list: []any{part}}})
}

// toJSONMap returns the JSON form of a value. It returns an error for values other than structs and
// maps; nil becomes nil.
func toJSONMap(v any) (map[string]any, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	return m, json.Unmarshal(body, &m)
}

// parseTemplateOutput returns the part of a pod in the YAML output of a template: nil if the output
// is empty or null. It returns an error if the output is anything else but an object.
func parseTemplateOutput(text []byte) (map[string]any, error) {
	var m map[string]any
	if err := yaml.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("the template's output is not a part of a pod: %w", err)
	}
	return m, nil
}
