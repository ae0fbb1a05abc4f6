package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	kubegateway "github.com/meshpilot/meshpilot/internal/kube/gateway"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot/cow"
)

// Deployment describes the gateway proxies that a Gateway needs. It is immutable. Only Gateways of
// a class with ControllerName have one. A Gateway whose spec.addresses name an existing Service has
// none, because its proxies run already.
type Deployment struct {
	// Gateway is the Gateway as it was read: class, infrastructure, addresses, generation.
	Gateway *config.Config
	// Class is the name of its class, and ClassObject the GatewayClass, or nil if none exists and
	// the name is a default one.
	Class       string
	ClassObject *config.Config
	// Ports are the ports of the Service, sorted by number: one for each port and transport
	// protocol of the valid listeners, including the listeners of ListenerSets. A proxy listens on
	// the same numbers.
	Ports []ServicePort
}

// ServicePort is a port of a deployed gateway's Service.
type ServicePort struct {
	// Name is that of the listener, valid and unique in the Service.
	Name     string
	Number   uint32
	Protocol corev1.Protocol
	// AppProtocol is the protocol of the listener in lower case: "http", "https", "tls", "tcp" or
	// "udp".
	AppProtocol string
}

// Deployments are the gateways to deploy, by the key of their Gateway. Get returns nil for a
// Gateway for which no proxies are deployed.
type Deployments = cow.Map[config.Key, *Deployment]

// ServiceName returns the name of the Service and the Deployment of a deployed Gateway, as in
// Istio: the annotation gateway.istio.io/name-override, or else "NAME-CLASS".
func ServiceName(gateway *config.Config, class string) string {
	if name := gateway.Annotations[nameOverride]; name != "" {
		return name
	}
	return gateway.Name + "-" + class
}

// overlaysFault returns why the object of a parametersRef has no usable overlays for deployed
// gateways, or "": it is no ConfigMap, the ConfigMap does not exist, or its data are malformed.
// That it exists is only required if Gateways are deployed here.
func (c *Converter) overlaysFault(group gatewayv1.Group, kind gatewayv1.Kind, k config.Key) string {
	if group != "" || kind != "ConfigMap" {
		return fmt.Sprintf("kind %q of group %q is not supported, only ConfigMap", kind, group)
	}
	object := c.objects.all[k]
	if object == nil {
		if c.options.Deploys {
			return fmt.Sprintf("ConfigMap %s does not exist in namespace %s", k.Name, k.Namespace)
		}
		return ""
	}
	if err := kubegateway.CheckOverlays(config.Spec[*corev1.ConfigMap](object).Data); err != nil {
		return fmt.Sprintf("ConfigMap %s: %v", k.Name, err)
	}
	return ""
}

// maxName is the maximum length of names of Services and of values of labels.
const maxName = 63

// checkNames fails g.deployable if the name of a deployed Gateway, which becomes the value of a
// label, or of its Service is too long. It does nothing for a Gateway that is not deployed here.
func (g *gateway) checkNames(o Options) {
	if !g.isDeployed(o) {
		return
	}
	service := ServiceName(g.object, string(g.spec.GatewayClassName))
	switch {
	case len(g.Name) > maxName:
		g.deployable = verdict{
			string(gatewayv1.GatewayReasonInvalid),
			fmt.Sprintf(
				"The name of the Gateway has more than %d characters, so it cannot be a label of its proxies",
				maxName),
		}
	case len(service) > maxName:
		g.deployable = verdict{
			string(gatewayv1.GatewayReasonInvalid),
			fmt.Sprintf("The name %q of its Service has more than %d characters: set the annotation %s",
				service, maxName, nameOverride),
		}
	}
}

// nameOverride is the annotation of a Gateway with the name of its Deployment and Service.
const nameOverride = "gateway.istio.io/name-override"

// deployment returns the Deployment of a Gateway. It returns nil if the Gateway is not deployed
// here, not accepted or has unusable names.
func (c *Converter) deployment(g *gateway) *Deployment {
	if !g.isDeployed(c.options) || !g.accepted.ok() || !g.deployable.ok() {
		return nil
	}
	return &Deployment{
		Gateway:     g.object,
		Class:       string(g.spec.GatewayClassName),
		ClassObject: g.class.object,
		Ports:       g.servicePorts(c.options.HTTP3),
	}
}

// servicePorts returns the ports that the Service of a deployed Gateway needs for the accepted
// listeners that do not conflict, sorted by number: for the first listener of each port and
// transport. With http3, the first HTTPS listener of a port also has a UDP port, unless another
// listener has it. The TCP port for readiness is left out, because the Service has it anyway.
func (g *gateway) servicePorts(http3 bool) []ServicePort {
	var list []ServicePort
	seen, names := map[transport]bool{{port: readinessPort}: true}, map[string]bool{readinessName: true}
	add := func(l *listener, name string, udp bool) {
		at := transport{l.spec.Port, udp}
		if l.accepted.ok() && l.conflict.ok() && !seen[at] {
			seen[at] = true
			list = append(list, newServicePort(l, at, uniqueName(name, at.port, names)))
		}
	}
	for _, l := range g.listeners {
		add(l, string(l.spec.Name), l.spec.Protocol == gatewayv1.UDPProtocolType)
	}
	for _, l := range g.listeners {
		if http3 && l.spec.Protocol == gatewayv1.HTTPSProtocolType && l.spec.Port != readinessPort {
			add(l, string(l.spec.Name)+"-quic", true)
		}
	}
	slices.SortFunc(list, func(a, b ServicePort) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Protocol, b.Protocol))
	})
	return list
}

// newServicePort returns the port of a Service with this name for a listener.
func newServicePort(l *listener, at transport, name string) ServicePort {
	p := ServicePort{
		Name: name, Number: uint32(at.port), Protocol: corev1.ProtocolTCP, //nolint:gosec // validated by the API
		AppProtocol: strings.ToLower(string(l.spec.Protocol)),
	}
	if at.udp {
		p.Protocol = corev1.ProtocolUDP
	}
	return p
}

// readinessPort and readinessName are the port for readiness, which each deployed Service has.
const (
	readinessPort = 15021
	readinessName = "status-port"
)

// uniqueName returns the name of a listener as the name of a Service port, and adds it to used: "."
// becomes "-", and it has at most maxName characters. If used contains it, the port's number is
// appended, and then as many "x" as needed. The results equal Istio's.
func uniqueName(listener string, port int32, used map[string]bool) string {
	name := truncateName(strings.ReplaceAll(listener, ".", "-"), maxName)
	unique := name
	for suffix := fmt.Sprintf("-%d", port); used[unique]; suffix += "x" {
		unique = truncateName(name, maxName-len(suffix)) + suffix
	}
	used[unique] = true
	return unique
}

// truncateName returns the first characters of a name of a port, at most length, without hyphens
// at the end, which a name must not have.
func truncateName(name string, length int) string {
	return strings.TrimRight(name[:min(len(name), length)], "-")
}
