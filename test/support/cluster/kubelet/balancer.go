package kubelet

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// balancer assigns addresses to Services of type LoadBalancer. kube-proxy does the rest, as for a
// cluster's own: packets to them only have to come to the node.
type balancer struct {
	k      *kubelet
	ranges []*addresses
	given  map[string][]netip.Addr // by namespace/name; callbacks of an informer come one at a time
}

func (k *kubelet) runBalancer(ctx context.Context) {
	b := &balancer{k: k, given: map[string][]netip.Addr{}}
	for _, prefix := range k.LoadBalancerCIDRs {
		b.ranges = append(b.ranges, newAddresses(prefix))
		if err := k.network.keepLocal(prefix); err != nil {
			k.Log.Error("load balancer addresses are not routed", "error", err)
			return
		}
	}
	factory := informers.NewSharedInformerFactory(k.client, 0)
	_, err := factory.Core().V1().Services().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { b.observeService(ctx, o) },
		UpdateFunc: func(_, o any) { b.observeService(ctx, o) },
		DeleteFunc: b.removeService,
	})
	if err != nil {
		k.Log.Error("services are not watched", "error", err)
		return
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
}

func (b *balancer) observeService(ctx context.Context, o any) {
	service, ok := o.(*corev1.Service)
	if !ok || service.Spec.Type != corev1.ServiceTypeLoadBalancer || service.DeletionTimestamp != nil {
		b.removeService(o)
		return
	}
	id := service.Namespace + "/" + service.Name
	if len(service.Status.LoadBalancer.Ingress) > 0 {
		b.adoptAddress(id, service.Status.LoadBalancer.Ingress)
		return
	}
	if b.given[id] == nil {
		for _, r := range b.familiesOf(service) {
			ip, err := r.allocate()
			if err != nil {
				b.k.Log.Warn("a load balancer has no address", "service", id, "error", err)
				return
			}
			b.given[id] = append(b.given[id], ip)
		}
	}
	service = service.DeepCopy()
	for _, ip := range b.given[id] {
		service.Status.LoadBalancer.Ingress = append(service.Status.LoadBalancer.Ingress,
			corev1.LoadBalancerIngress{IP: ip.String(), IPMode: new(corev1.LoadBalancerIPModeVIP)})
	}
	if _, err := b.k.client.CoreV1().
		Services(service.Namespace).
		UpdateStatus(ctx, service, metav1.UpdateOptions{}); err != nil &&
		!isGone(err) {
		b.k.Log.Warn("a load balancer's address was not written", "service", id, "error", err)
	}
}

// adoptAddress records the address that a Service already has.
func (b *balancer) adoptAddress(id string, ingress []corev1.LoadBalancerIngress) {
	if b.given[id] != nil {
		return
	}
	for _, in := range ingress {
		ip, err := netip.ParseAddr(in.IP)
		if err != nil {
			continue
		}
		b.given[id] = append(b.given[id], ip)
		for _, r := range b.ranges {
			r.reserveAddress(ip)
		}
	}
}

func (b *balancer) removeService(o any) {
	if lost, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = lost.Obj
	}
	service, ok := o.(*corev1.Service)
	if !ok {
		return
	}
	id := service.Namespace + "/" + service.Name
	for _, ip := range b.given[id] {
		for _, r := range b.ranges {
			r.releaseAddress(ip)
		}
	}
	delete(b.given, id)
}

// familiesOf returns the ranges of the families that a Service has.
func (b *balancer) familiesOf(service *corev1.Service) []*addresses {
	var ranges []*addresses
	for _, family := range service.Spec.IPFamilies {
		for _, r := range b.ranges {
			if r.prefix.Addr().Is6() == (family == corev1.IPv6Protocol) {
				ranges = append(ranges, r)
			}
		}
	}
	return ranges
}

// keepLocal makes a range local to the node, where kube-proxy translates it. A connection to an
// address or port that has no rule yet is refused at once. Were the range only routed, its first
// packet would get lost, and the repeated ones too, which conntrack treats as the same connection.
func (n *network) keepLocal(prefix netip.Prefix) error {
	link, err := n.links.LinkByName("lo")
	if err != nil {
		return err
	}
	dst := &net.IPNet{IP: prefix.Masked().Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
	route := &netlink.Route{
		LinkIndex: link.Attrs().Index, Dst: dst, Src: n.nodeIP(prefix.Addr()).AsSlice(),
		Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST,
	}
	if err := n.links.RouteReplace(route); err != nil {
		return fmt.Errorf("route %s: %w", prefix, err)
	}
	return nil
}
