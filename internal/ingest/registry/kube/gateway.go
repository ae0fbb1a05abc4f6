package kube

import (
	"fmt"
	"slices"
	"strconv"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

const (
	// remoteGatewayClass is that of Gateways for which nobody deploys anything: they stand for gateways in places whose API server is not
	// read, and are written down where config is.
	remoteGatewayClass = "istio-remote"
	// listenerMode is an option of a listener's TLS; autoPassthrough is that of listeners which send connections on by their SNI, as
	// those of Istio's AUTO_PASSTHROUGH do.
	listenerMode    = "gateway.istio.io/listener-mode"
	autoPassthrough = "auto-passthrough"
)

// takeGateway takes up an event about a Gateway of the Gateway API. Other events change nothing.
func (c *Converter) takeGateway(out mesh.Batch, e mesh.Event) mesh.Batch {
	if e.Config.Kind != api.KubernetesGateway {
		return out
	}
	object := e.Config
	if e.Op == mesh.Delete {
		object = nil
	}
	return c.setGateway(out, name{Namespace: e.Config.Namespace, Name: e.Config.Name}, e.Config, object)
}

// setGateway takes up a Gateway of the Gateway API, nil if it is gone, as far as it leads into a network. Whatever else it says is for
// others to read.
func (c *Converter) setGateway(out mesh.Batch, k name, last, object *config.Config) mesh.Batch {
	var now *mesh.GatewayObject
	var wrong problems
	key := last.Key
	out, converted := c.guard.Try(out, registry.Convert, key, last.Origin, func() {
		if object == nil || c.options.IgnoreGateways {
			return
		}
		wrong = problemsOf(object)
		if list := c.networkGateways(object, &wrong); len(list) > 0 {
			now = &mesh.GatewayObject{Cluster: c.options.Cluster, From: key, Gateways: list}
		}
	})
	if !converted {
		return out
	}
	switch before := swap(c.said.gateways, k, now); {
	case now.Equal(before):
	case now == nil:
		gone := &mesh.GatewayObject{Cluster: before.Cluster, From: before.From}
		out = append(out, mesh.Event{Op: mesh.Delete, Source: c.source, Gateways: gone})
	default:
		out = append(out, mesh.Event{Source: c.source, Gateways: now})
	}
	return c.sayProblems(out, key, wrong.list)
}

// networkGateways gives the gateways that a Gateway stands for, sorted: each of its addresses (spec.addresses, as in Istio: those of the
// status are what somebody deployed for it, and that is a Service) with each listener for mutual TLS of sidecars. Listeners of
// protocol HBONE are for a data plane that is not there.
func (c *Converter) networkGateways(object *config.Config, wrong *problems) []mesh.NetworkGateway {
	network := mesh.Network(object.Labels[label.TopologyNetwork.Name])
	spec := &config.Spec[*gatewayv1.Gateway](object).Spec
	if network == "" || c.options.Remote && spec.GatewayClassName == remoteGatewayClass {
		return nil
	}
	ports := c.passthroughPorts(object, spec.Listeners, wrong)
	var list []mesh.NetworkGateway
	for i, a := range spec.Addresses {
		address := a.Value
		switch {
		case a.Type == nil || *a.Type == gatewayv1.IPAddressType:
			ip, ok := canonicalIP(a.Value)
			if address = ip; !ok {
				wrong.add(config.Warning, fmt.Sprintf("spec.addresses[%d].value", i), fmt.Sprintf("%q is not an IP address; it is left out", a.Value))
				continue
			}
		case *a.Type != gatewayv1.HostnameAddressType:
			wrong.add(config.Warning, fmt.Sprintf("spec.addresses[%d].type", i), fmt.Sprintf("%q is neither IPAddress nor Hostname; the address is left out", *a.Type))
			continue
		}
		for _, port := range ports {
			list = append(list, mesh.NetworkGateway{Network: network, Cluster: c.options.Cluster, Address: address, Port: port})
		}
	}
	slices.SortFunc(list, mesh.NetworkGateway.Compare)
	return slices.Compact(list)
}

// passthroughPorts gives the ports of those listeners that send connections on by their SNI: those of that mode, and one with TLS on the
// port of gateways of networks, which a label may name.
func (c *Converter) passthroughPorts(object *config.Config, listeners []gatewayv1.Listener, wrong *problems) []uint32 {
	usual := uint64(mesh.DefaultNetworkGatewayPort)
	if text := object.Labels[label.NetworkingGatewayPort.Name]; text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			wrong.add(config.Warning, "metadata.labels["+label.NetworkingGatewayPort.Name+"]", fmt.Sprintf("%q is not a port number: no listener is on it", text))
		}
		usual = n
	}
	var ports []uint32
	for i := range listeners {
		l := &listeners[i]
		if l.TLS != nil && (l.TLS.Options[listenerMode] == autoPassthrough || uint64(l.Port) == usual) { //nolint:gosec // ports are positive
			ports = append(ports, uint32(l.Port))
		}
	}
	if len(ports) == 0 {
		wrong.add(config.Warning, "spec.listeners", fmt.Sprintf("none has TLS and port %d, or the option %s: %s, so this is no gateway of network %q",
			usual, listenerMode, autoPassthrough, object.Labels[label.TopologyNetwork.Name]))
	}
	return ports
}
