package cluster

import (
	"slices"
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
	for i := 0; i < len(v.Inbound); {
		first := v.Inbound[i]
		end := i + 1
		for end < len(v.Inbound) && v.Inbound[end].TargetPort == first.TargetPort {
			end++
		}
		list = append(list, inboundInput(v, v.Inbound[i:end]))
		i = end
	}
	return list
}

// inboundInput returns the input for the instances at, which all have the same target port; at must
// not be empty. Port, Service and Rule are of the first, which belongs to the oldest service. Names
// has only the services with the same service port, and none if the first is external.
func inboundInput(v *view.View, at []view.Instance) InboundInput {
	first := at[0]
	var names []name
	for _, i := range at {
		if n := nameOf(i.Service); i.Port.Number == first.Port.Number && !slices.Contains(names, n) &&
			!first.Service.MeshExternal {
			names = append(names, n)
		}
	}
	return InboundInput{
		Number:   first.TargetPort,
		Port:     first.Port,
		Endpoint: defaultEndpoint(v, first.TargetPort),
		Service:  first.Service,
		Names:    encodeNames(names),
		Rule:     v.OwnDestinationRule(first.Service), Sidecar: v.Sidecar, Settings: v.Settings, Proxy: ProxyOf(v),
	}
}

// defaultEndpoint returns the destination of traffic to one of the workload's ports: "" for the
// original one, or the same port of the loopback address if the mesh configures it
// (MeshConfig.inboundTrafficPolicy).
func defaultEndpoint(v *view.View, port uint32) string {
	if v.Settings.Mesh.GetInboundTrafficPolicy().GetMode() != meshconfig.MeshConfig_InboundTrafficPolicy_LOCALHOST {
		return ""
	}
	return "127.0.0.1:" + formatNumber(port)
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
			in.Names = encodeNames([]name{nameOf(in.Service)})
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
