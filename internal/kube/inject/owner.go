package inject

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Owner is the workload that a pod belongs to.
type Owner struct {
	Type metav1.TypeMeta
	Name types.NamespacedName
}

// ownerOf tells a pod's workload by its controller and labels: of a ReplicaSet with a template hash in its name the Deployment or
// Rollout, of a Job with a time in its name the CronJob.
func ownerOf(pod *corev1.Pod) Owner {
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
		if name, ok := withoutHash(controller.Name, pod.Labels["pod-template-hash"]); ok {
			o.Type.Kind, o.Name.Name = "Deployment", name
		} else if name, ok := withoutHash(controller.Name, pod.Labels["rollouts-pod-template-hash"]); ok {
			o.Type, o.Name.Name = metav1.TypeMeta{Kind: "Rollout", APIVersion: "v1alpha1"}, name
		}
	case "ReplicationController":
		if name := pod.Labels["deploymentconfig"]; name != "" {
			o.Type.Kind, o.Name.Name = "DeploymentConfig", name
		}
	case "Job":
		if name, ok := withoutTime(controller.Name); ok {
			o.Type, o.Name.Name = metav1.TypeMeta{Kind: "CronJob", APIVersion: "batch/v1"}, name
		}
	}
	return o
}

func withoutHash(name, hash string) (string, bool) {
	if hash == "" || !strings.HasSuffix(name, hash) {
		return "", false
	}
	return strings.TrimSuffix(name, "-"+hash), true
}

// withoutTime takes the time off that a CronJob puts behind its Jobs' names: 8 to 10 digits, in seconds or minutes.
func withoutTime(name string) (string, bool) {
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
