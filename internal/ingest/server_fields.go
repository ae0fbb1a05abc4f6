package ingest

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// firstPreviewAddress precedes the cluster IPs of Services that a preview creates. The network
// 240.0.0.0/4 is reserved, so that no object has an address of it.
var firstPreviewAddress = netip.AddrFrom4([4]byte{240, 0, 0, 0})

// hasNoEffect reports whether c is a Pod without an address. An API server keeps the status of the
// Pod that it replaces, and a new Pod has no address yet.
func hasNoEffect(c *config.Config) bool {
	pod, ok := c.Spec.(*corev1.Pod)
	return ok && pod.Status.PodIP == ""
}

// withServerFields returns the spec of the submitted object c. Of a Service it returns a copy with
// the status, cluster IPs and node ports that an API server sets and manifests leave out. They are
// taken from known, the object that it replaces, nil for a new one. A Service that needs a cluster
// IP and has none gets the next address after the last.
func (x *Preview) withServerFields(c, known *config.Config) any {
	s, ok := c.Spec.(*corev1.Service)
	if !ok {
		return c.Spec
	}
	before := new(corev1.Service)
	if known != nil {
		before = known.Spec.(*corev1.Service)
	}
	return x.allocate(s.DeepCopy(), before)
}

// allocate sets the missing status, cluster IPs and node ports of s, as an API server does when s
// replaces before, and returns s. A new Service has an empty before. A Service that then has no
// cluster IP gets the address after x.lastAddress, unless it is headless or an ExternalName. Node
// ports are taken from before only, and only for the types NodePort and LoadBalancer.
func (x *Preview) allocate(s, before *corev1.Service) *corev1.Service {
	if len(s.Status.LoadBalancer.Ingress) == 0 {
		s.Status = before.Status
	}
	if api.NeedsClusterIP(&s.Spec) && before.Spec.Type != corev1.ServiceTypeExternalName {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = before.Spec.ClusterIP, before.Spec.ClusterIPs
	}
	if api.NeedsClusterIP(&s.Spec) {
		x.lastAddress = x.lastAddress.Next()
		s.Spec.ClusterIP, s.Spec.ClusterIPs = x.lastAddress.String(), []string{x.lastAddress.String()}
	}
	if s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		for i := range s.Spec.Ports {
			keepNodePort(&s.Spec.Ports[i], before.Spec.Ports)
		}
	}
	return s
}

// keepNodePort sets the node port of p, if it is not set, as in the port of before with the same
// number and protocol. It does nothing if there is none. No protocol means TCP.
func keepNodePort(p *corev1.ServicePort, before []corev1.ServicePort) {
	same := func(o corev1.ServicePort) bool {
		return o.Port == p.Port && protocolOrTCP(o.Protocol) == protocolOrTCP(p.Protocol)
	}
	if i := slices.IndexFunc(before, same); i >= 0 && p.NodePort == 0 {
		p.NodePort = before[i].NodePort
	}
}

// protocolOrTCP returns a protocol, or TCP, its default.
func protocolOrTCP(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}
