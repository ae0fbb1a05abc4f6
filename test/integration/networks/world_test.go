package networks

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// world is the mesh of two networks, and a caller in the near one.
type world struct {
	*testing.T
	near, far site
	caller    client
	gateway   string // address of that into the far network
}

// calls is the number of calls that are needed for a reliable result.
const calls = 30

func (s site) gatewayAddress(of site) string { return of.loadBalancer(system, "istio-eastwestgateway") }

// hosts returns the addresses that the caller has for web, or a subset of it.
func (w *world) hosts(subset string) []string {
	w.Helper()
	return slices.Sorted(maps.Keys(w.near.hosts(shop, w.caller.pod, "outbound|9080|"+subset+"|web.shop.svc.cluster.local", "rq_total")))
}

// has returns a check that the caller has exactly these addresses for web.
func (w *world) has(want ...string) func() error {
	slices.Sort(want)
	return func() error {
		if got := w.hosts(""); !slices.Equal(got, want) {
			return fmt.Errorf("the caller has %v, want %v", got, want)
		}
		return nil
	}
}

// farAway is the address of the gateway as callers have it.
func (w *world) farAway(port int) string { return fmt.Sprintf("%s:%d", w.gateway, port) }

// answered checks that all calls are answered by that many pods of a cluster.
func (w *world) answered(what, cluster string, pods int, curl ...string) {
	w.Helper()
	until(w.T, what, func() error { return w.caller.call(calls, curl...).all(cluster, calls, pods) })
}

// scale has a Deployment have that many pods.
func (s site) scale(namespace, deployment string, replicas int) {
	s.t.Helper()
	if out, err := s.kubectl("-n", namespace, "scale", "deployment/"+deployment, fmt.Sprintf("--replicas=%d", replicas)); err != nil {
		s.t.Fatal(out, err)
	}
	s.rolledOut(namespace, deployment)
}

// podAddress returns the address of the only pod of a selector.
func (s site) podAddress(selector string) string {
	s.t.Helper()
	pod, err := s.admin.CoreV1().Pods(shop).Get(s.t.Context(), s.pods(shop, selector)[0], metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return pod.Status.PodIP + ":9080"
}
