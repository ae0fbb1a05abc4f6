package view

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// GatewayKey is what of a gateway, a proxy of type router, shapes what it serves. It is zero for sidecars.
type GatewayKey struct {
	// Names are the Gateways that select the proxy.
	Names snapshot.GatewayNames
	// Ports are where the proxy's Services lead connections, in the canonical text form that gatewayPorts writes: a Gateway
	// has numbers of Service ports, and the proxy listens on the targets.
	Ports string
	// Unprivileged proxies cannot listen on ports below 1024.
	Unprivileged bool
	// HTTP10 proxies serve clients that speak HTTP/1.0.
	HTTP10 bool
	// Topology is the proxy's own ProxyConfig.gatewayTopology, encoded; "": the mesh's.
	Topology string
}

// gatewayKeyFor gives the GatewayKey of a router.
func gatewayKeyFor(s *snapshot.Snapshot, p *mesh.Proxy, labels map[string]string) GatewayKey {
	m := &p.Metadata
	return GatewayKey{
		Names: s.GatewayNames(p.Namespace, labels), Ports: encodeGatewayPorts(gatewayPorts(s, p, labels)),
		Unprivileged: m.UnprivilegedPod == "true", HTTP10: s.Settings.Features.HTTP10 || m.HTTP10 == "1", Topology: topologyOf(m.ProxyConfig),
	}
}

// topologyOf gives ProxyConfig.gatewayTopology of the ProxyConfig that a proxy has, encoded; "" if there is none that can be
// read.
func topologyOf(proxyConfig []byte) string {
	if !bytes.Contains(proxyConfig, []byte("gatewayTopology")) {
		return ""
	}
	var own struct {
		GatewayTopology json.RawMessage `json:"gatewayTopology"`
	}
	t := new(meshconfig.Topology)
	if json.Unmarshal(proxyConfig, &own) != nil || (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(own.GatewayTopology, t) != nil {
		return ""
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(t)
	if err != nil {
		return ""
	}
	return string(text)
}

// GatewayTopology gives what is known of the proxies in front of the gateway (ProxyConfig.gatewayTopology): the gateway's own,
// or else the mesh's. It is not to be changed.
func (v *View) GatewayTopology() *meshconfig.Topology {
	own := new(meshconfig.Topology)
	if v.Key.Gateway.Topology != "" && proto.Unmarshal([]byte(v.Key.Gateway.Topology), own) == nil {
		return own
	}
	return v.Settings.Mesh.GetDefaultConfig().GetGatewayTopology()
}

// gatewayPort is one port of a Service that leads to a gateway.
type gatewayPort struct {
	number, target uint32
	udp            bool
}

// untranslatedLabel is on Services whose target ports are what Gateways mean.
const untranslatedLabel = "experimental.istio.io/disable-gateway-port-translation"

// gatewayPorts finds where the Services of a gateway lead: those that select its labels, and those that have its address among
// their endpoints. Services of other namespaces do not count. UDP counts too, for that is what HTTP/3 comes by.
func gatewayPorts(s *snapshot.Snapshot, p *mesh.Proxy, labels map[string]string) []gatewayPort {
	w := workload(s, p)
	var list []gatewayPort
	add := func(svc *mesh.Service, port mesh.Port, target uint32) {
		if target == 0 {
			return
		}
		udp := port.Protocol == mesh.UDP
		list = append(list, gatewayPort{port.Number, target, udp})
		if _, same := svc.Labels[untranslatedLabel]; same {
			list = append(list, gatewayPort{target, target, udp})
		}
	}
	for _, svc := range s.Selecting(p.Namespace) {
		if !snapshot.Selects(svc.Selector, labels) {
			continue
		}
		for _, port := range svc.Ports {
			add(svc, port, target(port, w))
		}
	}
	for _, a := range p.Addresses {
		at := s.At(a)
		if at == nil || a.IsLoopback() { // everybody on the machine is at a loopback address
			continue
		}
		for _, t := range at.Targets {
			svc := s.Service(t.Service)
			if svc == nil || svc.Namespace != p.Namespace {
				continue
			}
			for _, port := range svc.Ports {
				if port.Name == t.ServicePort {
					add(svc, port, t.Port)
				}
			}
		}
	}
	return list
}

// encodeGatewayPorts writes ports as "80:8080;443:8443;443:8443/udp", sorted.
func encodeGatewayPorts(list []gatewayPort) string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = strconv.FormatUint(uint64(p.number), 10) + ":" + strconv.FormatUint(uint64(p.target), 10)
		if p.udp {
			texts[i] += "/udp"
		}
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), ";")
}

// decodeGatewayPorts reads what encodeGatewayPorts wrote.
func decodeGatewayPorts(text string) []gatewayPort {
	var list []gatewayPort
	for one := range strings.SplitSeq(text, ";") {
		one, udp := strings.CutSuffix(one, "/udp")
		from, to, ok := strings.Cut(one, ":")
		number, err := strconv.ParseUint(from, 10, 32)
		target, err2 := strconv.ParseUint(to, 10, 32)
		if ok && err == nil && err2 == nil {
			list = append(list, gatewayPort{uint32(number), uint32(target), udp})
		}
	}
	return list
}
