package gatewayapi

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// manualService returns the Service that the Gateway's first address of type Hostname with a value
// names, whether or not it exists. It returns false if there is no such address, or with
// Options.IgnoreHostnames. A Gateway with one has proxies that its user deploys. A name without a
// dot is a Service of the Gateway's namespace.
func (c *Converter) manualService(g *gateway) (name, bool) {
	host, found := c.options.hostnameAddress(g.spec.Addresses)
	if !found {
		return name{}, false
	}
	short := strings.TrimSuffix(strings.TrimSuffix(host, "."+c.options.Domain), ".svc")
	service, namespace, qualified := strings.Cut(short, ".")
	if !qualified {
		namespace = g.Namespace
	}
	return name{Namespace: namespace, Name: service}, true
}

// checkParameters fails g.accepted if spec.infrastructure.parametersRef names no usable overlays
// (overlaysFault). An address of an unsupported type fails it too. The ConfigMap is added to
// g.references.
func (c *Converter) checkParameters(g *gateway) {
	if i := g.spec.Infrastructure; i != nil && i.ParametersRef != nil {
		ref := i.ParametersRef
		k := config.Key{Kind: api.ConfigMap, Namespace: g.Namespace, Name: ref.Name}
		g.references = append(g.references, k)
		if fault := c.overlaysFault(ref.Group, ref.Kind, k); fault != "" {
			g.accepted.worse(verdict{
				string(gatewayv1.GatewayReasonInvalidParameters), "spec.infrastructure.parametersRef: " + fault,
			})
		}
	}
	for i, a := range g.spec.Addresses {
		if a.Type != nil && *a.Type != gatewayv1.IPAddressType && *a.Type != gatewayv1.HostnameAddressType {
			g.accepted.worse(verdict{
				string(gatewayv1.GatewayReasonUnsupportedAddress),
				fmt.Sprintf("spec.addresses[%d].type: %q is not supported, only IPAddress and Hostname", i, *a.Type),
			})
		}
	}
}

// addresses returns the addresses for a Gateway's status: the addresses of its Service
// (serviceAddresses), with their verdict. Without a Service they are the values in spec.addresses,
// and the verdict always passes.
func (c *Converter) addresses(g *gateway) ([]gatewayv1.GatewayStatusAddress, verdict) {
	if g.service != nil {
		return c.serviceAddresses(g)
	}
	return requestedAddresses(g.spec), verdict{}
}

// requestedAddresses returns the addresses in spec.addresses that have a value.
func requestedAddresses(spec *gatewayv1.GatewaySpec) (list []gatewayv1.GatewayStatusAddress) {
	for _, a := range spec.Addresses {
		if a.Value != "" {
			list = append(list, gatewayv1.GatewayStatusAddress{Type: addressType(a.Type), Value: a.Value})
		}
	}
	return list
}

// unusableAddress returns the failed verdict of addresses if the Gateway's Service does not have a
// requested address, or a requested hostname names no Service. Otherwise, also if a load balancer
// has no address yet, it returns an empty verdict.
func (c *Converter) unusableAddress(g *gateway) verdict {
	if _, v := c.addresses(g); v.reason == string(gatewayv1.GatewayReasonAddressNotUsable) {
		return v
	}
	return verdict{}
}

// addressType returns the type of an address, IPAddress if it is nil.
func addressType(t *gatewayv1.AddressType) *gatewayv1.AddressType {
	if t != nil {
		return t
	}
	ip := gatewayv1.IPAddressType
	return &ip
}

// serviceAddresses returns the addresses of a Gateway from its Service: those of the load balancer
// for this type, else the host of the Service. The verdict fails if the Service or an address of
// the load balancer is missing, or a requested address is not assigned.
func (c *Converter) serviceAddresses(g *gateway) ([]gatewayv1.GatewayStatusAddress, verdict) {
	s := specOf[*corev1.Service](c.objects.all[serviceKey(*g.service)])
	if s == nil {
		v := verdict{
			string(gatewayv1.GatewayReasonAddressNotAssigned),
			fmt.Sprintf("Service %s does not exist in namespace %s", g.service.Name, g.service.Namespace),
		}
		if _, manual := c.options.hostnameAddress(g.spec.Addresses); manual {
			v = verdict{string(gatewayv1.GatewayReasonAddressNotUsable), "spec.addresses: " + v.message}
		}
		return nil, v
	}
	var list []gatewayv1.GatewayStatusAddress
	add := func(kind gatewayv1.AddressType, value string) {
		list = append(list, gatewayv1.GatewayStatusAddress{Type: &kind, Value: value})
	}
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		add(gatewayv1.HostnameAddressType, fmt.Sprintf("%s.%s.svc.%s", s.Name, s.Namespace, c.options.Domain))
		return list, c.missingAddresses(g, s, nil)
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		switch {
		case in.IP != "":
			add(gatewayv1.IPAddressType, in.IP)
		case in.Hostname != "":
			add(gatewayv1.HostnameAddressType, in.Hostname)
		}
	}
	if len(list) == 0 {
		return nil, verdict{
			string(gatewayv1.GatewayReasonAddressNotAssigned),
			fmt.Sprintf("the load balancer of Service %s has no address yet", s.Name),
		}
	}
	return list, c.missingAddresses(g, s, list)
}

// missingAddresses returns a failed verdict for the first IP address in the Gateway's spec that its
// Service s does not have. s has the addresses in have, its external IPs and its ClusterIPs. An
// address without a type is an IP address. Addresses without a value, and hostnames, are not
// checked. Without a missing address the verdict passes.
func (c *Converter) missingAddresses(g *gateway, s *corev1.Service, have []gatewayv1.GatewayStatusAddress) verdict {
	assigned := slices.Concat([]string{s.Spec.ClusterIP}, s.Spec.ClusterIPs, s.Spec.ExternalIPs)
	for _, h := range have {
		assigned = append(assigned, h.Value)
	}
	for i, a := range g.spec.Addresses {
		if a.Value == "" || a.Type != nil && *a.Type != gatewayv1.IPAddressType {
			continue
		}
		want, _ := netip.ParseAddr(a.Value)
		if !slices.ContainsFunc(assigned, func(text string) bool {
			ip, err := netip.ParseAddr(text)
			return err == nil && ip == want
		}) {
			return verdict{
				string(gatewayv1.GatewayReasonAddressNotUsable),
				fmt.Sprintf("spec.addresses[%d]: %s is not assigned to Service %s", i, a.Value, s.Name),
			}
		}
	}
	return verdict{}
}
