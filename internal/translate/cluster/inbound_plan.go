package cluster

import (
	"slices"
	"strconv"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// noInterception is the mode of proxies without traffic capture (Key.Interception).
const noInterception = "NONE"

// inboundInputs returns the inputs of a View's inbound clusters: one for each port of its own
// workload or, if its Sidecar has ingress listeners, for each of these instead. Without
// interception there are only the latter, because the workload itself listens on its ports. It
// returns nil for proxies that are not sidecars.
func inboundInputs(v *view.View) []InboundInput {
	switch {
	case v.Key.Type != mesh.SidecarProxy:
		return nil
	case len(v.Ingress) > 0:
		return ingressInputs(v)
	case v.Key.Interception == noInterception:
		return nil
	}
	var list []InboundInput
	for i, instance := range v.Inbound { // sorted by target port
		if i == 0 || v.Inbound[i-1].TargetPort != instance.TargetPort {
			list = append(list, inboundInput(v, instance))
		}
	}
	return list
}

// inboundInput returns the input for a target port at which first is the instance of the oldest
// service. Metrics do not name an external service.
func inboundInput(v *view.View, first view.Instance) InboundInput {
	in := InboundInput{
		Number:   first.TargetPort,
		Port:     first.Port,
		Endpoint: defaultEndpoint(v, first.TargetPort),
		Service:  first.Service,
		Rule:     v.OwnDestinationRule(first.Service), Sidecar: v.Sidecar, Settings: v.Settings, Proxy: ProxyOf(v),
	}
	if !first.Service.MeshExternal {
		in.Label = nameOf(first.Service)
	}
	return in
}

// defaultEndpoint returns the destination of traffic to one of the workload's ports: "" for the
// original one, or the same port of the loopback address if the mesh configures it
// (MeshConfig.inboundTrafficPolicy).
func defaultEndpoint(v *view.View, port uint32) string {
	if v.Settings.Mesh.GetInboundTrafficPolicy().GetMode() != meshconfig.MeshConfig_InboundTrafficPolicy_LOCALHOST {
		return ""
	}
	return "127.0.0.1:" + strconv.FormatUint(uint64(port), 10)
}

// ingressInputs returns the inputs of the Sidecar's ingress listeners. The service at the port of a
// listener, if any, supplies its name and rule. Of several listeners with one port, the first is
// used.
func ingressInputs(v *view.View) []InboundInput {
	var list []InboundInput
	for _, l := range v.Ingress {
		number := l.GetPort().GetNumber()
		if slices.ContainsFunc(list, func(in InboundInput) bool { return in.Number == number }) {
			continue
		}
		in := InboundInput{
			Number: number, Port: ingressPort(l), Endpoint: ingressEndpoint(l),
			Sidecar: v.Sidecar, Settings: v.Settings, Proxy: ProxyOf(v),
		}
		if i := slices.IndexFunc(v.Inbound, func(i view.Instance) bool { return i.TargetPort == number }); i >= 0 {
			in.Service, in.Rule = v.Inbound[i].Service, v.OwnDestinationRule(v.Inbound[i].Service)
			in.Label = nameOf(in.Service)
		}
		list = append(list, in)
	}
	return list
}

// ingressEndpoint returns the destination of an ingress listener, or "" for the original one. An
// endpoint without an address (":8080") is ignored, as in Istio.
func ingressEndpoint(l *networking.IstioIngressListener) string {
	if strings.HasPrefix(l.GetDefaultEndpoint(), ":") {
		return ""
	}
	return l.GetDefaultEndpoint()
}

// ingressPort returns the port of an ingress listener, with protocol Auto if the protocol is
// unknown.
func ingressPort(l *networking.IstioIngressListener) mesh.Port {
	protocol, _ := mesh.ParseProtocol(l.GetPort().GetProtocol())
	return mesh.Port{Name: l.GetPort().GetName(), Number: l.GetPort().GetNumber(), Protocol: protocol}
}
