package inject

import (
	"encoding/json"
	"fmt"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// templatePath is where a workload of a kind has its pods' template; nil: nowhere, or it is a Pod itself.
func templatePath(kind string) []string {
	switch kind {
	case "Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "ReplicationController", "Job", "DeploymentConfig", "Rollout":
		return []string{"spec", "template"}
	case "CronJob":
		return []string{"spec", "jobTemplate", "spec", "template"}
	}
	return nil
}

// workload injects the pods of an object as it is in a manifest, JSON by JSON: what injection does not touch stays as it was
// written. It says false for an object that has none.
func (s *Settings) workload(object map[string]any, o ManifestOptions) (changed bool, warnings []string, err error) {
	head := readHead(object, o.Namespace)
	template := object
	if path := templatePath(head.Kind); path != nil {
		for _, name := range path {
			if template, _ = template[name].(map[string]any); template == nil {
				return false, nil, fmt.Errorf("%s: %s is missing", head, strings.Join(path, "."))
			}
		}
	} else if head.Kind != "Pod" {
		return false, nil, nil
	}
	part := map[string]any{"metadata": template["metadata"], "spec": template["spec"]}
	if part["metadata"] == nil {
		part["metadata"] = map[string]any{}
	}
	body, err := json.Marshal(part)
	if err != nil {
		return false, nil, fmt.Errorf("%s: %w", head, err)
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(body, pod); err != nil {
		return false, nil, fmt.Errorf("%s: %w", head, err)
	}
	if d := s.forced().Decide(pod, head.Namespace); !d.Inject {
		return false, []string{fmt.Sprintf("%s is left as it is: %s", head, d.Reason)}, nil
	}
	request := Request{Pod: pod, Namespace: head.Namespace, Native: o.Native}
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
	if err := patchWritten(part, pod, result.Pod); err != nil {
		return false, nil, fmt.Errorf("%s: %w", head, err)
	}
	template["metadata"], template["spec"] = part["metadata"], part["spec"]
	return true, warnings, nil
}

// forced is the configuration for who asks for injection by name: what says nothing is injected.
func (s *Settings) forced() *Config {
	c := *s.Config
	c.Policy = Enabled
	return &c
}

// patchWritten makes of an object as it was written what makes one pod of another, where the first is what it was decoded as.
func patchWritten(written map[string]any, from, to *corev1.Pod) error {
	text, err := Patch(from, to)
	if err != nil {
		return err
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(from)
	if err != nil {
		return err
	}
	var decoded any
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		return err
	}
	added := defaults{}
	added.fill(written, decoded, "")
	body, err := json.Marshal(written)
	if err != nil {
		return err
	}
	if body, err = patch.Apply(body); err != nil {
		return err
	}
	clear(written)
	if err := json.Unmarshal(body, &written); err != nil {
		return err
	}
	added.drop(written, "")
	return nil
}

// workloadHead is which object it is.
type workloadHead struct {
	Owner
	Kind, Namespace string
}

func (h workloadHead) String() string {
	if h.Name.Namespace == "" {
		return h.Kind + " " + h.Name.Name
	}
	return h.Kind + " " + h.Name.Namespace + "/" + h.Name.Name
}

func readHead(object map[string]any, namespace string) workloadHead {
	h := workloadHead{}
	apiVersion, _ := object["apiVersion"].(string)
	h.Kind, _ = object["kind"].(string)
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	own, _ := metadata["namespace"].(string)
	if own == "" {
		own = namespace
	}
	h.Namespace = own
	h.Owner = Owner{Type: metav1.TypeMeta{APIVersion: apiVersion, Kind: h.Kind}, Name: types.NamespacedName{Namespace: own, Name: name}}
	return h
}
