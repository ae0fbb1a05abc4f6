package analysis

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"istio.io/api/label"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// networksOrigin is the Origin of Problems in MeshNetworks.
const networksOrigin = "mesh networks"

// checkNetworks adds Warnings for settings without effect in MeshNetworks, and in Services that are
// network gateways. Of several networks with one registry, the first by name has it, and the others
// have the Warning.
func (a *analyzer) checkNetworks() {
	all := a.s.Settings.Networks.GetNetworks()
	registries, ranges := map[string]string{}, map[netip.Prefix]string{} // the network of each
	for _, name := range slices.Sorted(maps.Keys(all)) {
		field := "networks[" + name + "]"
		for i, e := range all[name].GetEndpoints() {
			at := fmt.Sprintf("%s.endpoints[%d]", field, i)
			if r := e.GetFromRegistry(); r != "" {
				if other, taken := registries[r]; taken && other != name {
					a.warnNetwork(
						at+".fromRegistry",
						fmt.Sprintf("registry %q is in network %q already, and stays there", r, other),
					)
				} else {
					registries[r] = name
				}
			}
			if text := e.GetFromCidr(); text != "" {
				a.reportNetworkRange(at+".fromCidr", name, text, ranges)
			}
		}
		for i, g := range all[name].GetGateways() {
			a.reportNetworkGateway(fmt.Sprintf("%s.gateways[%d]", field, i), all[name], g)
		}
	}
	a.reportLabelledGateways()
}

// warnNetwork appends a Warning for a field of MeshNetworks.
func (a *analyzer) warnNetwork(field, reason string) {
	a.found = append(
		a.found,
		config.Problem{Origin: networksOrigin, Field: field, Reason: reason, Severity: config.Warning,
			Code: code.InvalidMeshSetting},
	)
}

// reportNetworkRange adds a Warning for a fromCidr that is no range of addresses, and for each
// range of another network that it overlaps. It adds a valid range to ranges, also if it overlaps.
// Networks must be visited by name, because the first one is in force.
func (a *analyzer) reportNetworkRange(field, network, text string, ranges map[netip.Prefix]string) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		a.warnNetwork(field, fmt.Sprintf("%q is not a range of addresses: want one such as 192.168.0.0/16", text))
		return
	}
	prefix = prefix.Masked()
	for _, other := range slices.SortedFunc(maps.Keys(ranges), netip.Prefix.Compare) {
		if other.Overlaps(prefix) && ranges[other] != network {
			a.warnNetwork(
				field,
				fmt.Sprintf("overlaps with %s of network %q, which has the addresses of both", other, ranges[other]),
			)
		}
	}
	ranges[prefix] = network
}

// reportNetworkGateway adds Warnings for settings without effect of a gateway in MeshNetworks: its
// port, its locality and its address or service. of is its network. With an address, the service is
// ignored; a gateway with neither has a Warning.
func (a *analyzer) reportNetworkGateway(field string, of *meshconfig.Network,
	g *meshconfig.Network_IstioNetworkGateway) {
	if g.GetPort() == 0 || g.GetPort() > 65535 {
		a.warnNetwork(field+".port", fmt.Sprintf("%d is not a port number: the gateway is not used", g.GetPort()))
	}
	if g.GetLocality() != "" {
		a.warnNetwork(
			field+".locality",
			"has no effect, as in Istio: a gateway is in the locality of what is reached through it",
		)
	}
	switch address, host := g.GetAddress(), mesh.Hostname(g.GetRegistryServiceName()); {
	case address != "":
		a.reportGatewayAddress(field+".address", address)
	case host == "":
		a.warnNetwork(field, "says neither an address nor the name of a service: the gateway is not used")
	default:
		a.reportGatewayService(field+".registryServiceName", of, host)
	}
}

// reportGatewayAddress reports an address of a gateway that is neither an IP address nor a host
// name.
func (a *analyzer) reportGatewayAddress(field, address string) {
	if _, err := netip.ParseAddr(address); err != nil && !config.IsHostname(address) {
		a.warnNetwork(field, fmt.Sprintf("%q is neither an IP address nor a name: the gateway is not used", address))
	}
}

// reportGatewayService adds a Warning with the first reason why the service of a network's gateway
// is not used. It does not exist, has no external address, has the label of a network, or is in no
// registry of the network. of is the gateway's network.
func (a *analyzer) reportGatewayService(field string, of *meshconfig.Network, host mesh.Hostname) {
	var found *mesh.Service
	for _, s := range a.s.Services() {
		if s.Host == host {
			found = s
		}
	}
	inRegistry := func(e *meshconfig.Network_NetworkEndpoints) bool {
		return found != nil && e.GetFromRegistry() == string(found.Cluster)
	}
	switch {
	case found == nil:
		a.warnNetwork(field, fmt.Sprintf("there is no service %q: the gateway is not used", host))
	case len(found.External) == 0:
		a.warnNetwork(
			field,
			fmt.Sprintf("service %q has no addresses outside its cluster yet: the gateway is not used", host),
		)
	case found.Labels[label.TopologyNetwork.Name] != "":
		a.warnNetwork(
			field,
			fmt.Sprintf("service %q has the label %s, which goes before", host, label.TopologyNetwork.Name),
		)
	case !slices.ContainsFunc(of.GetEndpoints(), inRegistry):
		a.warnNetwork(
			field,
			fmt.Sprintf(
				"none of the network's endpoints are from registry %q, where the service is: the gateway is not used",
				found.Cluster),
		)
	}
}

// reportLabelledGateways adds Warnings for Services with the label of a network gateway that lack
// the gateway's port or whose network has no resolved address. It also adds one for an invalid port
// in a label, for which the default is taken. Services without an external address are skipped.
func (a *analyzer) reportLabelledGateways() {
	for _, s := range a.s.Services() {
		network := s.Labels[label.TopologyNetwork.Name]
		if network == "" || len(s.External) == 0 {
			continue
		}
		object := a.s.Config(s.From)
		if object == nil {
			object = &config.Config{Meta: config.Meta{Key: s.From}}
		}
		port, text := uint32(mesh.DefaultNetworkGatewayPort), s.Labels[label.NetworkingGatewayPort.Name]
		if text != "" {
			n, err := strconv.ParseUint(text, 10, 16)
			if err != nil {
				a.warn(
					code.InvalidMeshSetting,
					object,
					"metadata.labels["+label.NetworkingGatewayPort.Name+"]",
					fmt.Sprintf("%q is not a port number: %d is taken", text, port),
				)
			} else {
				port = uint32(n)
			}
		}
		if _, there := s.Port(port); !there {
			a.warn(
				code.InvalidMeshSetting,
				object,
				"metadata.labels["+label.TopologyNetwork.Name+"]",
				fmt.Sprintf("the service has no port %d, so it is no gateway of network %q", port, network),
			)
		}
		if a.s.Networks().IsUnresolved(mesh.Network(network)) {
			a.warn(
				code.InvalidMeshSetting,
				object,
				"status.loadBalancer",
				fmt.Sprintf(
					"no address of a gateway of network %q is known, so the network is unreachable: %s was not resolved",
					network, strings.Join(s.External, ", ")),
			)
		}
	}
}
