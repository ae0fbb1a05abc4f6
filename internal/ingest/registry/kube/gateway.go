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
	// remoteGatewayClass is the class of Gateways for which nothing is deployed. They describe
	// gateways of networks whose API server is not read.
	remoteGatewayClass = "istio-remote"
	// listenerMode is a TLS option of a listener. autoPassthrough is its value for listeners that
	// route by SNI, like Istio's TLS mode AUTO_PASSTHROUGH.
	listenerMode    = "gateway.istio.io/listener-protocol"
	autoPassthrough = "auto-passthrough"
)

// applyGateway appends the changed network gateways and Problems that follow from an event about a
// Gateway of the Gateway API. It ignores other events.
func (c *Converter) applyGateway(out mesh.Batch, e mesh.Event) mesh.Batch {
	if e.Config.Kind != api.KubernetesGateway {
		return out
	}
	object := e.Config
	if e.Op == mesh.Delete {
		object = nil
	}
	return c.setGateway(out, name{Namespace: e.Config.Namespace, Name: e.Config.Name}, e.Config, object)
}

// setGateway emits the network gateways that a Gateway of the Gateway API defines, and their
// Problems. Both are deleted if object is nil, and without the option DiscoverGateways. last is the
// object of the event, used for its key and origin. If the conversion panics, the last result stays
// and only that Problem is emitted.
func (c *Converter) setGateway(out mesh.Batch, k name, last, object *config.Config) mesh.Batch {
	var now *mesh.GatewayObject
	var wrong problems
	key := last.Key
	out, converted := c.guard.Try(out, registry.Convert, key, last.Origin, func() {
		if object == nil || !c.options.DiscoverGateways {
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
	out = c.emitGateways(out, k, now)
	return c.emitted.problems.Emit(out, key, wrong.list)
}

// networkGateways returns the network gateways that a Gateway defines, sorted and without
// duplicates: each address in spec.addresses combined with each passthrough listener. It returns
// nil without the label of a network, and for remote gateways of a remote cluster. Invalid IP
// addresses, and addresses of other types than IPAddress and Hostname, are left out and reported in
// wrong.
//
// Addresses in the status are ignored, as in Istio, because they belong to a deployed gateway,
// which has a Service. HBONE listeners are ignored, because ambient mode is not supported.
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
				wrong.add(
					config.Warning,
					fmt.Sprintf("spec.addresses[%d].value", i),
					fmt.Sprintf("%q is not an IP address; it is left out", a.Value),
				)
				continue
			}
		case *a.Type != gatewayv1.HostnameAddressType:
			wrong.add(
				config.Warning,
				fmt.Sprintf("spec.addresses[%d].type", i),
				fmt.Sprintf("%q is neither IPAddress nor Hostname; the address is left out", *a.Type),
			)
			continue
		}
		for _, port := range ports {
			list = append(
				list,
				mesh.NetworkGateway{Network: network, Cluster: c.options.Cluster, Address: address, Port: port},
			)
		}
	}
	slices.SortFunc(list, mesh.NetworkGateway.Compare)
	return slices.Compact(list)
}

// passthroughPorts returns the ports of the listeners that route by SNI, in their order. They have
// TLS settings, and either the option listenerMode with autoPassthrough or the port of network
// gateways. A label can override that port; if it is invalid, only the option decides. It reports
// in wrong if there are none or the label is invalid.
func (c *Converter) passthroughPorts(object *config.Config, listeners []gatewayv1.Listener, wrong *problems) []uint32 {
	usual := uint64(mesh.DefaultNetworkGatewayPort)
	if text := object.Labels[label.NetworkingGatewayPort.Name]; text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			n = 0 // not the maximum, which ParseUint returns for a larger number
			wrong.add(
				config.Warning,
				"metadata.labels["+label.NetworkingGatewayPort.Name+"]",
				fmt.Sprintf("%q is not a port number: no listener is created", text),
			)
		}
		usual = n
	}
	var ports []uint32
	for i := range listeners {
		l := &listeners[i]
		if l.TLS != nil &&
			//nolint:gosec // ports are positive
			(l.TLS.Options[listenerMode] == autoPassthrough || uint64(l.Port) == usual) {
			ports = append(ports, uint32(l.Port))
		}
	}
	if len(ports) == 0 {
		wrong.add(
			config.Warning,
			"spec.listeners",
			fmt.Sprintf("none has TLS and port %d, or the option %s: %s, so this is not a gateway of network %q",
				usual, listenerMode, autoPassthrough, object.Labels[label.TopologyNetwork.Name]),
		)
	}
	return ports
}
