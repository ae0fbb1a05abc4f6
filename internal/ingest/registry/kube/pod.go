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

// podFacts is what a Pod says of itself, as far as it counts. The Pod itself is not kept: it is many times as big.
type podFacts struct {
	uid                 types.UID
	labels              map[string]string
	serviceAccount      string
	node                string
	ips                 []string
	ports               map[string]uint32
	hostname, subdomain string
	owner               string
	hostNetwork         bool
	terminal            bool // has ended: its IP may already be another pod's
	ready               bool
	problems            []config.Problem
}

type pod struct {
	podFacts
	// workload is the pod as the mesh knows it, set when the batch has been read.
	workload *mesh.Workload
}

// setPod takes up a Pod, nil if it is gone.
func (c *Converter) setPod(k name, object *config.Config) {
	old, now := c.pods[k], (*pod)(nil)
	if object != nil {
		now = &pod{podFacts: c.readPod(object)}
	}
	if old == nil && now == nil {
		return
	}
	// Readiness is by far the most frequent change, and no endpoint depends on it: slices have conditions of their own.
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
			c.touchPod(k, p)
		}
	}
}

func sameButReady(a, b podFacts) bool {
	a.ready = b.ready
	return reflect.DeepEqual(a, b)
}

// touchPod marks the pod and the slices that have endpoints of it.
func (c *Converter) touchPod(k name, p *pod) {
	c.dirtyPods.add(k)
	c.dirtySlices.addAll(c.slicesOfPod.Of(k))
	for _, ip := range p.ips {
		c.dirtySlices.addAll(c.slicesOfAddr.Of(ip))
	}
}

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

func (c *Converter) unindexPod(k name, p *pod) {
	c.podsOn.Remove(p.node, k)
	for _, ip := range p.ips {
		c.podsAt.Remove(ip, k)
	}
}

// podAt finds the pod of a namespace that has an IP; whoever lists the address of another namespace's pod is not believed to
// know whose it is. Pods in the host's network share their node's, and are found only if there is one of them.
func (c *Converter) podAt(namespace, ip string) *pod {
	var own, host []*pod
	for k := range c.podsAt.Of(ip) {
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

// hostnameOf gives a pod's own name below a headless service, "" if it is below none.
func hostnameOf(p *corev1.Pod, name string) string {
	if p.Spec.Subdomain == "" {
		return ""
	}
	return cmp.Or(p.Spec.Hostname, name)
}

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

// canonicalIP gives an address its one spelling. ok is false for what is no IP address.
func canonicalIP(text string) (ip string, ok bool) {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return "", false
	}
	return addr.String(), true
}

// namedPorts are a pod's TCP ports that have names. Of two ports with one name the first counts, as in Kubernetes, and those
// of native sidecars (init containers that go on running) come last.
func namedPorts(p *corev1.Pod) map[string]uint32 {
	var ports map[string]uint32
	add := func(container *corev1.Container) {
		for _, port := range container.Ports {
			if port.Name == "" || port.Protocol != corev1.ProtocolTCP && port.Protocol != "" {
				continue
			}
			if ports == nil {
				ports = map[string]uint32{}
			}
			if _, taken := ports[port.Name]; !taken {
				ports[port.Name] = uint32(port.ContainerPort)
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

func (c *Converter) flushPods(out mesh.Batch) mesh.Batch {
	for _, k := range c.dirtyPods.take() {
		var said, now *mesh.Workload
		var wrong []config.Problem
		key, p := config.Key{Kind: api.Pod, Namespace: k.Namespace, Name: k.Name}, c.pods[k]
		var converted bool
		out, converted = c.guard.Try(out, registry.Convert, key, "", func() {
			if p != nil {
				now = c.workload(k, p)
			}
		})
		if !converted {
			if p.workload == nil { // the pod is another: its endpoints are those of the last good one, or wait
				p.workload = c.said.workloads[k]
			}
			continue
		}
		if p != nil {
			p.workload, wrong = now, p.problems
			if len(p.ips) > 0 && !p.terminal {
				said = p.workload
			}
		}
		out = c.sayWorkload(out, k, said)
		out = c.sayProblems(out, key, wrong)
	}
	return out
}

func (c *Converter) workload(k name, p *pod) *mesh.Workload {
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
		Labels:         c.topologyLabels(p.labels, locality, network, p.node),
		Account:        c.account(k.Namespace, p.serviceAccount),
		Node:           p.node,
		Locality:       locality,
		Network:        network,
		Health:         c.options.Labels.HealthOf(p.labels),
		TLS:            p.labels[label.SecurityTlsMode.Name] == "istio",
		Ready:          p.ready,
		From:           config.Key{Kind: api.Pod, Namespace: k.Namespace, Name: k.Name},
	}.Sealed()
}
