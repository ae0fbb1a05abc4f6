package kube

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// podFacts contains the parts of a Pod that the conversion needs. The Pod itself is not kept,
// because it is many times larger.
type podFacts struct {
	uid                 types.UID
	labels              map[string]string
	serviceAccount      string
	node                string
	ips                 []string
	ports               mesh.NamedPorts
	hostname, subdomain string
	owner               string
	hostNetwork         bool
	terminal            bool // terminated: its IP may already belong to another pod
	ready               bool
	problems            []config.Problem
}

// pod is a pod and its conversion.
type pod struct {
	podFacts
	// workload is set when the pod is converted, at the end of the batch.
	workload *mesh.Workload
}

// setPod stores a Pod, or deletes it if object is nil, and marks it and the slices that have an
// endpoint of it. If only its readiness differs, the slices are not marked. It does nothing if the
// fields of the Pod that it reads are unchanged.
func (c *Converter) setPod(k name, object *config.Config) {
	old, now := c.pods[k], (*pod)(nil)
	if object != nil {
		now = &pod{podFacts: c.readPod(object)}
	}
	if old == nil && now == nil {
		return
	}
	// Readiness is by far the most frequent change. It does not affect endpoints, because slices
	// have their own conditions.
	onlyReady := old != nil && now != nil && sameButReady(old.podFacts, now.podFacts)
	if onlyReady && old.ready == now.ready {
		return
	}
	if old != nil {
		c.unindexPod(k, old)
		delete(c.pods, k)
	}
	if now != nil {
		c.pods[k] = now
		c.indexPod(k, now)
	}
	c.dirtyPods.add(k)
	if onlyReady {
		return
	}
	for _, p := range []*pod{old, now} {
		if p != nil {
			c.markPod(k, p)
		}
	}
}

// sameButReady reports whether two versions of a pod differ at most in their readiness.
func sameButReady(a, b podFacts) bool {
	a.ready = b.ready
	return reflect.DeepEqual(a, b)
}

// markPod marks a pod and all slices that have an endpoint of it, by name or by address.
func (c *Converter) markPod(k name, p *pod) {
	c.dirtyPods.add(k)
	c.dirtySlices.addAll(c.slicesOfPod.Values(k))
	for _, ip := range p.ips {
		c.dirtySlices.addAll(c.slicesOfAddr.Values(ip))
	}
}

// indexPod adds a pod to the indexes by node and, unless it has terminated, by address.
func (c *Converter) indexPod(k name, p *pod) {
	if p.node != "" {
		c.podsOn.Add(p.node, k)
	}
	if !p.terminal {
		for _, ip := range p.ips {
			c.podsAt.Add(ip, k)
		}
	}
}

// unindexPod removes a pod from the indexes by node and address.
func (c *Converter) unindexPod(k name, p *pod) {
	c.podsOn.Remove(p.node, k)
	for _, ip := range p.ips {
		c.podsAt.Remove(ip, k)
	}
}

// podAt returns the pod of a namespace with an IP, or nil if there is none or it is ambiguous. A
// slice cannot claim the pod of another namespace by its address. Pods in the host network share
// the address of the node; such a pod is returned only if no other pod has the address.
func (c *Converter) podAt(namespace, ip string) *pod {
	var own, host []*pod
	for k := range c.podsAt.Values(ip) {
		switch p := c.pods[k]; {
		case k.Namespace != namespace:
		case p.hostNetwork:
			host = append(host, p)
		default:
			own = append(own, p)
		}
	}
	switch {
	case len(own) == 1:
		return own[0]
	case len(own) == 0 && len(host) == 1:
		return host[0]
	default:
		return nil
	}
}

// readPod returns what the Converter uses of a Pod. Invalid parts are reported in its problems. A
// terminating or terminated pod is not ready; without a Ready condition a pod is ready only if
// endpoints are made from pods.
func (c *Converter) readPod(object *config.Config) podFacts {
	p := config.Spec[*corev1.Pod](object)
	wrong := problemsOf(object)
	ready, said := false, false
	for _, condition := range p.Status.Conditions {
		if condition.Type == corev1.PodReady {
			ready, said = condition.Status == corev1.ConditionTrue, true
		}
	}
	terminal := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	return podFacts{
		uid:            p.UID,
		labels:         object.Labels,
		serviceAccount: cmp.Or(p.Spec.ServiceAccountName, "default"),
		node:           p.Spec.NodeName,
		ips:            podIPs(p, &wrong),
		ports:          namedPorts(p),
		hostname:       hostnameOf(p, object.Name),
		subdomain:      p.Spec.Subdomain,
		owner:          ownerOf(p, object.Name, object.Labels),
		hostNetwork:    p.Spec.HostNetwork,
		terminal:       terminal,
		ready:          (ready || !said && c.options.EndpointsFromPods) && !terminal && p.DeletionTimestamp == nil,
		problems:       wrong.list,
	}
}

// hostnameOf returns the name of a pod below a headless service, or "" if the pod has no subdomain.
func hostnameOf(p *corev1.Pod, name string) string {
	if p.Spec.Subdomain == "" {
		return ""
	}
	return cmp.Or(p.Spec.Hostname, name)
}

// podIPs returns the valid addresses of a pod in canonical form, without duplicates, status.podIP
// first. Invalid ones are reported in wrong. It returns nil if there are none.
func podIPs(p *corev1.Pod, wrong *problems) []string {
	var list []string
	add := func(field, ip string) {
		if ip == "" {
			return
		}
		canonical, ok := canonicalIP(ip)
		if !ok {
			wrong.add(config.Error, field, fmt.Sprintf("%q is not an IP address; it is left out", ip))
			return
		}
		if !slices.Contains(list, canonical) {
			list = append(list, canonical)
		}
	}
	add("status.podIP", p.Status.PodIP)
	for i, ip := range p.Status.PodIPs {
		add(fmt.Sprintf("status.podIPs[%d].ip", i), ip.IP)
	}
	return list
}

// canonicalIP returns the canonical form of an IPv4 or IPv6 address. ok is false for any other
// text, and for an address with a zone.
func canonicalIP(text string) (ip string, ok bool) {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return "", false
	}
	return addr.String(), true
}

// namedPorts returns a pod's TCP ports that have names. Of two ports with one name the first is
// used, as in Kubernetes. Ports of native sidecars (init containers with restartPolicy Always) come
// last; other init containers are ignored.
func namedPorts(p *corev1.Pod) mesh.NamedPorts {
	var ports mesh.NamedPorts
	add := func(container *corev1.Container) {
		for _, port := range container.Ports {
			tcp := port.Protocol == corev1.ProtocolTCP || port.Protocol == ""
			if tcp && port.Name != "" && ports.Number(port.Name) == 0 {
				ports = append(ports, mesh.NamedPort{Name: port.Name, Number: uint32(port.ContainerPort)})
			}
		}
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
	}
	for i := range p.Spec.InitContainers {
		if r := p.Spec.InitContainers[i].RestartPolicy; r != nil && *r == corev1.ContainerRestartPolicyAlways {
			add(&p.Spec.InitContainers[i])
		}
	}
	return ports
}

// flushPods converts the marked pods, emits their workloads and Problems, and clears the marks. A
// deleted or terminated pod, or one without an address, has no workload. If the conversion panics,
// the last workload stays in use.
func (c *Converter) flushPods(out mesh.Batch) mesh.Batch {
	for _, k := range c.dirtyPods.drain() {
		var said, now *mesh.Workload
		var wrong []config.Problem
		key, p := config.Key{Kind: api.Pod, Namespace: k.Namespace, Name: k.Name}, c.pods[k]
		var converted bool
		out, converted = c.guard.Try(out, registry.Convert, key, "", func() {
			if p != nil {
				now = c.newWorkload(k, p)
			}
		})
		if !converted {
			// the slices use the last good workload of the pod, or wait for one
			if p.workload == nil {
				p.workload = c.emitted.workloads.Value(k)
			}
			continue
		}
		if p != nil {
			p.workload, wrong = now, p.problems
			if len(p.ips) > 0 && !p.terminal {
				said = p.workload
			}
		}
		out = c.emitWorkload(out, k, said)
		out = c.emitted.problems.Emit(out, key, wrong)
	}
	return out
}

// newWorkload returns the workload of a pod. Its locality is that of its labels or else of its node
// (localityOf). Its network is that of its labels, else of the cluster, else of its first address
// (networkOf).
func (c *Converter) newWorkload(k name, p *pod) *mesh.Workload {
	address := ""
	if len(p.ips) > 0 {
		address = p.ips[0]
	}
	locality, network := c.localityOf(p.labels, p.node), c.networkOf(p.labels, address)
	return mesh.Workload{
		Provider:       mesh.Kubernetes,
		Cluster:        c.options.Cluster,
		Namespace:      k.Namespace,
		Name:           k.Name,
		Owner:          p.owner,
		Hostname:       p.hostname,
		Subdomain:      p.subdomain,
		Addresses:      p.ips,
		ContainerPorts: p.ports,
		Labels: registry.Topology{Locality: locality, Cluster: c.options.Cluster, Network: network,
			Node: p.node}.Labels(p.labels),
		Account:  c.accountID(k.Namespace, p.serviceAccount),
		Node:     p.node,
		Locality: locality,
		Network:  network,
		Health:   c.options.Labels.HealthOf(p.labels),
		TLS:      p.labels[label.SecurityTlsMode.Name] == "istio",
		Ready:    p.ready,
		From:     config.Key{Kind: api.Pod, Namespace: k.Namespace, Name: k.Name},
	}.Sealed()
}
