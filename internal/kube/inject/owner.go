package inject

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Owner is the workload that owns a pod.
type Owner struct {
	Type metav1.TypeMeta
	Name types.NamespacedName
}

// podOwner returns the workload that created the pod, from its controller and labels, without
// lookup. A ReplicaSet, Job or ReplicationController is replaced by its Deployment, Rollout,
// CronJob or DeploymentConfig, if its name or the pod's labels identify it. For a pod without a
// controller or without generateName it returns the pod itself.
func podOwner(pod *corev1.Pod) Owner {
	o := Owner{
		Type: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		Name: types.NamespacedName{Name: pod.Name, Namespace: pod.Namespace},
	}
	controller := metav1.GetControllerOfNoCopy(pod)
	if pod.GenerateName == "" || controller == nil {
		return o
	}
	o.Type, o.Name.Name = metav1.TypeMeta{Kind: controller.Kind, APIVersion: controller.APIVersion}, controller.Name
	switch controller.Kind {
	case "ReplicaSet":
		if name, ok := trimHash(controller.Name, pod.Labels["pod-template-hash"]); ok {
			o.Type.Kind, o.Name.Name = "Deployment", name
		} else if name, ok := trimHash(controller.Name, pod.Labels["rollouts-pod-template-hash"]); ok {
			o.Type, o.Name.Name = metav1.TypeMeta{Kind: "Rollout", APIVersion: "v1alpha1"}, name
		}
	case "ReplicationController":
		if name := pod.Labels["deploymentconfig"]; name != "" {
			o.Type.Kind, o.Name.Name = "DeploymentConfig", name
		}
	case "Job":
		if name, ok := trimTimestamp(controller.Name); ok {
			o.Type, o.Name.Name = metav1.TypeMeta{Kind: "CronJob", APIVersion: "batch/v1"}, name
		}
	}
	return o
}

// trimHash returns name without its suffix "-hash". It returns false if hash is empty or not the
// end of name. A name that ends with hash but without the dash is returned unchanged.
func trimHash(name, hash string) (string, bool) {
	if hash == "" || !strings.HasSuffix(name, hash) {
		return "", false
	}
	return strings.TrimSuffix(name, "-"+hash), true
}

// trimTimestamp returns name without the timestamp that a CronJob appends to its Jobs' names, 8 to
// 10 digits. It returns false if there is none.
func trimTimestamp(name string) (string, bool) {
	i := strings.LastIndex(name, "-")
	if i <= 0 {
		return "", false
	}
	digits := name[i+1:]
	if len(digits) < 8 || len(digits) > 10 || strings.Trim(digits, "0123456789") != "" {
		return "", false
	}
	return name[:i], true
}
