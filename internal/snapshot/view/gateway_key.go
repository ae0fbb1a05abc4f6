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

// GatewayKey is the part of a Key that only gateways (proxies of type router) have, beside their
// Gateways. It is zero for sidecars.
type GatewayKey struct {
	// Ports maps Service ports to the proxy's ports, in the text form of encodeGatewayPorts. A
	// Gateway names ports of Services, but the proxy listens on their target ports.
	Ports string
	// Unprivileged is set if the proxy cannot listen on ports below 1024.
	Unprivileged bool
	// Topology is the proxy's own ProxyConfig.gatewayTopology, encoded; "" means that of the mesh.
	Topology string
}

// gatewayKeyFor returns the GatewayKey of a router whose workload has labels. Its ports are those
// of Services in its namespace that select the labels or have its address as endpoint
// (gatewayPorts), the rest is from its metadata.
func gatewayKeyFor(s *snapshot.Snapshot, p *mesh.Proxy, labels map[string]string) GatewayKey {
	m := &p.Metadata
	return GatewayKey{
		Ports:        encodeGatewayPorts(gatewayPorts(s, p, labels)),
		Unprivileged: bool(m.UnprivilegedPod),
		Topology:     encodedTopology(m.ProxyConfig),
	}
}

// encodedTopology returns the field gatewayTopology of a proxy's own ProxyConfig (JSON), encoded
// deterministically. It returns "" if the field is missing or cannot be parsed.
func encodedTopology(proxyConfig []byte) string {
	if !bytes.Contains(proxyConfig, []byte("gatewayTopology")) {
		return ""
	}
	var own struct {
		GatewayTopology json.RawMessage `json:"gatewayTopology"`
	}
	t := new(meshconfig.Topology)
	if json.Unmarshal(proxyConfig, &own) != nil ||
		(protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(own.GatewayTopology, t) != nil {
		return ""
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(t)
	if err != nil {
		return ""
	}
	return string(text)
}

// GatewayTopology returns the number and kind of trusted proxies in front of the gateway
// (ProxyConfig.gatewayTopology): the gateway's own value, or else the mesh's, which may be nil.
// Callers must not modify it.
func (v *View) GatewayTopology() *meshconfig.Topology {
	own := new(meshconfig.Topology)
	if v.Key.Gateway.Topology != "" && proto.Unmarshal([]byte(v.Key.Gateway.Topology), own) == nil {
		return own
	}
	return v.Settings.Mesh.GetDefaultConfig().GetGatewayTopology()
}

// gatewayPort maps one port of a Service that selects a gateway to its target port.
type gatewayPort struct {
	number, target uint32
	udp            bool
}

// untranslatedLabel marks Services whose target ports, too, are valid port numbers in Gateways.
const untranslatedLabel = "experimental.istio.io/disable-gateway-port-translation"

// gatewayPorts returns the ports of the Services of a gateway with their target ports: Services
// that select its labels and Services whose endpoints contain its address, except loopback. Only
// Services of the proxy's namespace are used; ports whose target cannot be resolved are left out. A
// Service with untranslatedLabel also has its target ports as ports. UDP ports are included because
// HTTP/3 needs them, and the list may have duplicates.
func gatewayPorts(s *snapshot.Snapshot, p *mesh.Proxy, labels map[string]string) []gatewayPort {
	w := findWorkload(s, p)
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
	for _, svc := range s.ServicesWithSelector(p.Namespace) {
		if !snapshot.SelectorMatches(svc.Selector, labels) {
			continue
		}
		for _, port := range svc.Ports {
			add(svc, port, targetPort(port, w))
		}
	}
	for _, a := range p.Addresses {
		at := s.Address(a)
		if at == nil || a.IsLoopback() { // all proxies of the machine share the loopback addresses
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

// encodeGatewayPorts formats ports as "80:8080;443:8443;443:8443/udp", sorted and without
// duplicates.
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

// decodeGatewayPorts parses the output of encodeGatewayPorts. Malformed entries are skipped.
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
