package check

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// memoryShare is the share of the memory limit above which a container is near it.
const memoryShare = 0.8

// limitsSuffice fails if any container of the control plane's pods was killed for its memory. It
// warns if a replica's process uses more than memoryShare of the limit of its container discovery.
// Without a limit or a known use there is no warning. If pods cannot be listed, it fails, or is
// skipped without permission.
func limitsSuffice(ctx context.Context, t *Target) outcome {
	list, err := t.Client.Kubernetes.CoreV1().Pods(t.Namespace).List(ctx,
		metav1.ListOptions{LabelSelector: t.podSelector()})
	if err != nil {
		return requestFailed(err)
	}
	var wrong, near findings
	for i := range list.Items {
		p := &list.Items[i]
		wrong = append(wrong, killedContainers(p)...)
		limit := int64(0)
		for _, c := range p.Spec.Containers {
			if c.Name == "discovery" {
				limit = c.Resources.Limits.Memory().Value()
			}
		}
		used := t.residentMemory(ctx, p.Name)
		if limit > 0 && used > memoryShare*float64(limit) {
			near.add("%s uses %.0f of %d MiB", p.Name, used/(1<<20), limit>>20)
		}
	}
	return conclude(wrong, near, "no container was killed")
}

// killedContainers returns a finding for each container of a pod whose last termination was an OOM
// kill.
func killedContainers(p *corev1.Pod) (killed findings) {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if end := s.LastTerminationState.Terminated; end != nil && end.Reason == "OOMKilled" {
			killed.add("%s: container %s was killed for its memory at %s", p.Name, s.Name,
				end.FinishedAt.UTC().Format(time.RFC3339))
		}
	}
	return killed
}

// residentMemory returns the memory of the replica in the pod name in bytes, or 0 if it is not
// known.
func (t *Target) residentMemory(ctx context.Context, name string) float64 {
	if t.Control == nil {
		return 0
	}
	for _, r := range t.Control.Replicas {
		if r.Name == name {
			body, _, err := get(ctx, r, "/metrics")
			if err == nil {
				return metricValue(body, "process_resident_memory_bytes")
			}
		}
	}
	return 0
}

// metricValue returns the value of a metric without labels in Prometheus's text format, or 0 if
// there is none.
func metricValue(body []byte, name string) float64 {
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64); err == nil {
				return v
			}
		}
	}
	return 0
}
