package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"istio.io/api/label"
)

// ownerOf returns the name of the workload that created a pod: its controller, but the Deployment
// of a ReplicaSet, OpenShift's DeploymentConfig of a ReplicationController, and the CronJob of a
// Job. The names are derived without lookup: a ReplicaSet's name is that of its Deployment and the
// hash in a label of the pod. Without that label it is the ReplicaSet. A pod without a controller
// is its own owner. The label service.istio.io/workload-name overrides everything.
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
		// Argo Rollouts uses its own label for the hash.
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

// withoutTimestamp removes the "-" and the 8 to 10 digits that a CronJob appends to its own name.
// Other names are returned unchanged.
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
