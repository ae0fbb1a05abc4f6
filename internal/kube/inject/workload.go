package inject

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// templatePath returns the path of the pod template in a workload of this kind: spec.template, or
// for a CronJob spec.jobTemplate.spec.template. It returns nil for Pods and kinds that are not
// known as workloads.
func templatePath(kind string) []string {
	switch kind {
	case "Deployment",
		"DaemonSet",
		"StatefulSet",
		"ReplicaSet",
		"ReplicationController",
		"Job",
		"DeploymentConfig",
		"Rollout":
		return []string{"spec", "template"}
	case "CronJob":
		return []string{"spec", "jobTemplate", "spec", "template"}
	}
	return nil
}

// injectWorkload injects the pod template of an object from a manifest in place, and keeps fields
// that injection does not change as they were written. The policy is taken as Enabled. changed is
// false for other kinds, without a warning, and for pods that Decide rejects, with its reason as a
// warning. The warnings also include Decision.Warning. It returns an error if the pod template is
// missing or injection fails.
func (s *Settings) injectWorkload(
	object map[string]any,
	o ManifestOptions,
) (changed bool, warnings []string, err error) {
	head := parseHead(object, o.Namespace)
	template, err := podTemplate(object, head)
	if template == nil || err != nil {
		return false, nil, err
	}
	part, pod, err := decodePod(template)
	if err != nil {
		return false, nil, fmt.Errorf("%s: %w", head, err)
	}
	d := s.configWithPolicyEnabled().Decide(pod, head.Namespace)
	if d.Warning != "" {
		warnings = append(warnings, head.String()+": "+d.Warning)
	}
	if !d.Inject {
		return false, append(warnings, fmt.Sprintf("%s is not injected: %s", head, d.Reason)), nil
	}
	request := Request{Pod: pod, Namespace: head.Namespace, NativeSidecars: o.NativeSidecars}
	if head.Kind != "Pod" {
		request.Owner = &head.Owner
	}
	result, err := s.Inject(request)
	if err != nil {
		return false, nil, fmt.Errorf("%s: %w", head, err)
	}
	for _, w := range result.Warnings {
		warnings = append(warnings, head.String()+": "+w)
	}
	result.Pod.Namespace = pod.Namespace
	if err := patchManifest(part, pod, result.Pod); err != nil {
		return false, nil, fmt.Errorf("%s: %w", head, err)
	}
	template["metadata"], template["spec"] = part["metadata"], part["spec"]
	return true, warnings, nil
}

// podTemplate returns the pod template of a workload, or the object itself if it is a Pod. It
// returns nil for other kinds, and an error if the template is missing.
func podTemplate(object map[string]any, head workloadHead) (map[string]any, error) {
	path := templatePath(head.Kind)
	if path == nil && head.Kind != "Pod" {
		return nil, nil
	}
	template := object
	for _, name := range path {
		if template, _ = template[name].(map[string]any); template == nil {
			return nil, fmt.Errorf("%s: %s is missing", head, strings.Join(path, "."))
		}
	}
	return template, nil
}

// decodePod decodes the metadata and the spec of a pod template. part has both as in the manifest,
// shared with template, with empty metadata if there are none. It returns an error if a field has a
// wrong type; unknown fields are ignored.
func decodePod(template map[string]any) (part map[string]any, pod *corev1.Pod, err error) {
	part = map[string]any{"metadata": template["metadata"], "spec": template["spec"]}
	if part["metadata"] == nil {
		part["metadata"] = map[string]any{}
	}
	body, err := json.Marshal(part)
	if err != nil {
		return nil, nil, err
	}
	pod = &corev1.Pod{}
	if err := json.Unmarshal(body, pod); err != nil {
		return nil, nil, err
	}
	return part, pod, nil
}

// configWithPolicyEnabled returns a copy of the configuration for explicit injection, in which pods
// are injected by default.
func (s *Settings) configWithPolicyEnabled() *Config {
	c := *s.Config
	c.Policy = Enabled
	return &c
}

// patchManifest applies the difference between two pods, like kubectl apply, to written in place,
// an object as in the manifest. from must be its decoded form. Fields without a difference keep
// their value, and fields that are unknown to Kubernetes are kept too.
func patchManifest(written map[string]any, from, to *corev1.Pod) error {
	before, err := toJSONMap(from)
	if err != nil {
		return err
	}
	after, err := toJSONMap(to)
	if err != nil {
		return err
	}
	patch, err := strategicpatch.CreateTwoWayMergeMapPatch(before, after, corev1.Pod{})
	if err != nil {
		return err
	}
	patched, err := strategicpatch.StrategicMergeMapPatch(written, patch, corev1.Pod{})
	if err != nil {
		return err
	}
	maps.Copy(written, patched)
	return nil
}

// workloadHead identifies an object.
type workloadHead struct {
	Owner
	Kind, Namespace string
}

// String returns the kind and name of the object, with the namespace if it has one.
func (h workloadHead) String() string {
	if h.Name.Namespace == "" {
		return h.Kind + " " + h.Name.Name
	}
	return h.Kind + " " + h.Name.Namespace + "/" + h.Name.Name
}

// parseHead returns the kind, namespace and name of an object. Missing fields are empty, except
// that namespace is used for an object without one.
func parseHead(object map[string]any, namespace string) workloadHead {
	h := workloadHead{}
	apiVersion, _ := object["apiVersion"].(string)
	h.Kind, _ = object["kind"].(string)
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	objectNamespace, _ := metadata["namespace"].(string)
	if objectNamespace == "" {
		objectNamespace = namespace
	}
	h.Namespace = objectNamespace
	h.Owner = Owner{
		Type: metav1.TypeMeta{APIVersion: apiVersion, Kind: h.Kind},
		Name: types.NamespacedName{Namespace: objectNamespace, Name: name},
	}
	return h
}
