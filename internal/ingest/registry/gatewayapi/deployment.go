package gatewayapi

import (
	"fmt"
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
	// Name is valid and unique in the Service: "http-80", "https-443", "udp-53".
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
				maxName,
			),
		}
	case len(service) > maxName:
		g.deployable = verdict{
			string(gatewayv1.GatewayReasonInvalid),
			fmt.Sprintf(
				"The name %q of its Service has more than %d characters: set the annotation %s",
				service,
				maxName,
				nameOverride,
			),
		}
	}
}

// nameOverride is the annotation of a Gateway with the name of its Deployment and Service.
const nameOverride = "gateway.istio.io/name-override"

// servicePort returns the port that the Service of a deployed Gateway needs for a listener. Its
// name is PROTOCOL-NUMBER in lower case. The transport is UDP for the protocol UDP, and otherwise
// TCP.
func servicePort(l *listener) ServicePort {
	p := ServicePort{
		Number: uint32(l.spec.Port), Protocol: corev1.ProtocolTCP, //nolint:gosec // validated by the API
		AppProtocol: strings.ToLower(string(l.spec.Protocol)),
	}
	if l.spec.Protocol == gatewayv1.UDPProtocolType {
		p.Protocol = corev1.ProtocolUDP
	}
	p.Name = fmt.Sprintf("%s-%d", p.AppProtocol, p.Number)
	return p
}
