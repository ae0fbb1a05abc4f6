package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"istio.io/api/label"
)

// ownerOf names what made a pod, as a person knows it: the Deployment and not its ReplicaSet, the CronJob and not its
// Job. Names are derived, not looked up: a ReplicaSet's is its Deployment's with the pod template's hash. A pod that
// nothing controls is its own owner; the label service.istio.io/workload-name overrides everything.
func ownerOf(pod *corev1.Pod, podName string, labels map[string]string) string {
	if named := labels[label.ServiceWorkloadName.Name]; named != "" {
		return named
	}
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil {
		return podName
	}
	switch controller.Kind {
	case "ReplicaSet":
		// Argo Rollouts puts its own hash where a Deployment puts pod-template-hash.
		for _, hash := range [...]string{labels["pod-template-hash"], labels["rollouts-pod-template-hash"]} {
			if deployment, ok := strings.CutSuffix(controller.Name, "-"+hash); ok && hash != "" {
				return deployment
			}
		}
	case "ReplicationController":
		if config := labels["deploymentconfig"]; config != "" { // OpenShift
			return config
		}
	case "Job":
		return withoutTimestamp(controller.Name)
	}
	return controller.Name
}

// withoutTimestamp takes away the "-" and the 8 to 10 digits that a CronJob puts behind its own name.
func withoutTimestamp(job string) string {
	i := strings.LastIndexByte(job, '-')
	if i <= 0 {
		return job
	}
	digits := job[i+1:]
	if len(digits) < 8 || len(digits) > 10 || strings.Trim(digits, "0123456789") != "" {
		return job
	}
	return job[:i]
}
