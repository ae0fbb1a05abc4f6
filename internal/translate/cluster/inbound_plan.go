package cluster

import (
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// noInterception is the mode of proxies to which applications connect themselves (Key.Interception).
const noInterception = "NONE"

// inbounds gives the inputs of a View's inbound clusters: one for each port of its own workload, or those that its Sidecar
// lists. Without interception only the latter: the workload itself listens on its ports.
func inbounds(v *view.View) []InboundInput {
	switch {
	case v.Key.Type != mesh.SidecarProxy:
		return nil
	case len(v.Ingress) > 0:
		return ingress(v)
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
		list = append(list, inboundOf(v, v.Inbound[i:end]))
		i = end
	}
	return list
}

// inboundOf gives the input for the service ports that lead to one port of the workload. The first, of the oldest service,
// says what is spoken there.
func inboundOf(v *view.View, at []view.Instance) InboundInput {
	first := at[0]
	var names []name
	for _, i := range at {
		if n := nameOf(i.Service); i.Port.Number == first.Port.Number && !slices.Contains(names, n) && !first.Service.MeshExternal {
			names = append(names, n)
		}
	}
	return InboundInput{
		Number: first.TargetPort, Port: first.Port, Endpoint: defaultEndpoint(v, first.TargetPort), Service: first.Service, Names: encodeNames(names),
		Rule: v.OwnDestinationRule(first.Service), Sidecar: v.Sidecar, Settings: v.Settings, Proxy: ProxyOf(v),
	}
}

// defaultEndpoint is where traffic to one of the workload's ports goes: where it was going, or the same port of its loopback
// address if the mesh says so (MeshConfig.inboundTrafficPolicy).
func defaultEndpoint(v *view.View, port uint32) string {
	if v.Settings.Mesh.GetInboundTrafficPolicy().GetMode() != meshconfig.MeshConfig_InboundTrafficPolicy_LOCALHOST {
		return ""
	}
	return "127.0.0.1:" + number(port)
}

// ingress gives the inputs of the Sidecar's own listeners. A service at such a port gives its name and its rule.
func ingress(v *view.View) []InboundInput {
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

// ingressEndpoint returns where requests of an ingress listener go; "" for the address and port that they came for. An endpoint
// without an address (":8080") counts as none, as in Istio.
func ingressEndpoint(l *networking.IstioIngressListener) string {
	if strings.HasPrefix(l.GetDefaultEndpoint(), ":") {
		return ""
	}
	return l.GetDefaultEndpoint()
}

func ingressPort(l *networking.IstioIngressListener) mesh.Port {
	protocol, _ := mesh.ParseProtocol(l.GetPort().GetProtocol())
	return mesh.Port{Name: l.GetPort().GetName(), Number: l.GetPort().GetNumber(), Protocol: protocol}
}
