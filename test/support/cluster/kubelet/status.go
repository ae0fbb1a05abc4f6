package kubelet

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// statusGathering is how long changes are collected before they are reported.
	statusGathering = 20 * time.Millisecond
	// statusRetry is the delay after the API server has refused a status.
	statusRetry = 500 * time.Millisecond
)

// reportStatus sends changes to the API server until ctx ends.
func (p *pod) reportStatus(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.changed.C():
		}
		if !p.writeStatus() {
			p.markChanged()
			if !sleepFor(ctx, statusRetry) {
				return
			}
		}
		if !sleepFor(ctx, statusGathering) {
			return
		}
	}
}

// writeStatus writes the status if it differs from the last one written. It returns false if it
// must be retried.
func (p *pod) writeStatus() bool {
	status := p.podStatus()
	p.mu.Lock()
	same := apiequality.Semantic.DeepEqual(p.told, status)
	p.mu.Unlock()
	if same || p.leaving.hasHappened() {
		return true
	}
	// The uid excludes another Pod of the same name.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.uid}, "status": status})
	if err != nil {
		p.log.Error("the status has no JSON", "error", err)
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), apiPatience)
	defer cancel()
	_, err = p.k.client.CoreV1().
		Pods(p.namespace).
		Patch(ctx, p.name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case err == nil:
		p.mu.Lock()
		p.told = status
		p.mu.Unlock()
		return true
	case isGone(err):
		return true
	default:
		p.log.Warn("the status was not written", "error", err)
		return false
	}
}

// podStatus is the current status of the Pod.
func (p *pod) podStatus() corev1.PodStatus {
	p.mu.Lock()
	object, initialized, outcome, containers := p.object, p.initialized, p.outcome, p.containers
	p.mu.Unlock()
	s := corev1.PodStatus{
		Phase: outcome, StartTime: &p.started, QOSClass: object.Status.QOSClass, ObservedGeneration: object.Generation,
		HostIP: p.k.NodeIPs[0].String(), PodIP: p.primaryIP().String(),
	}
	for _, ip := range p.k.NodeIPs {
		s.HostIPs = append(s.HostIPs, corev1.HostIP{IP: ip.String()})
	}
	for _, ip := range p.network.addresses {
		s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: ip.String()})
	}
	ready, ran := initialized && outcome == "", false
	for i := range object.Spec.InitContainers {
		if c := containers[object.Spec.InitContainers[i].Name]; c != nil {
			cs := c.containerStatus()
			ready = ready && cs.Ready
			s.InitContainerStatuses = append(s.InitContainerStatuses, cs)
		}
	}
	for i := range object.Spec.Containers {
		if c := containers[object.Spec.Containers[i].Name]; c != nil {
			cs := c.containerStatus()
			ready = ready && cs.Ready
			ran = ran || cs.State.Waiting == nil || cs.RestartCount > 0
			s.ContainerStatuses = append(s.ContainerStatuses, cs)
		}
	}
	if s.Phase == "" {
		s.Phase = corev1.PodPending
		if ran {
			s.Phase = corev1.PodRunning
		}
	}
	s.Conditions = p.podConditions(object, initialized, ready)
	return s
}

// podConditions returns the kubelet's conditions, and other conditions (of readiness gates)
// unchanged.
func (p *pod) podConditions(object *corev1.Pod, initialized, ready bool) []corev1.PodCondition {
	ours := []struct {
		kind  corev1.PodConditionType
		holds bool
	}{
		{corev1.PodScheduled, true},
		{corev1.PodReadyToStartContainers, true},
		{corev1.PodInitialized, initialized},
		{corev1.ContainersReady, ready},
		{corev1.PodReady, ready && gatesOpen(object)},
	}
	p.mu.Lock()
	told := p.told.Conditions
	p.mu.Unlock()
	var all []corev1.PodCondition
	for _, o := range ours {
		c := corev1.PodCondition{
			Type:               o.kind,
			Status:             corev1.ConditionFalse,
			LastTransitionTime: metav1.Now(),
			ObservedGeneration: object.Generation,
		}
		if o.holds {
			c.Status = corev1.ConditionTrue
		}
		for _, old := range told {
			if old.Type == c.Type && old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
		all = append(all, c)
	}
	for _, c := range object.Status.Conditions {
		if !slices.ContainsFunc(all, func(o corev1.PodCondition) bool { return o.Type == c.Type }) {
			all = append(all, c)
		}
	}
	return all
}

// gatesOpen reports whether all readiness gates of a Pod have their condition.
func gatesOpen(object *corev1.Pod) bool {
	for _, gate := range object.Spec.ReadinessGates {
		if !slices.ContainsFunc(object.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		}) {
			return false
		}
	}
	return true
}
