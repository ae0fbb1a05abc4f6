package view

import (
	"bytes"
	"cmp"
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

// untranslatedLabel marks Services whose ports are not translated: a Gateway names target ports of
// such a Service.
const untranslatedLabel = "experimental.istio.io/disable-gateway-port-translation"

// servedPort is a port that a Service maps to a gateway's port.
type servedPort struct {
	service *mesh.Service
	gatewayPort
}

// gatewayPorts returns the ports of a gateway's Services, with their target ports. These are
// Services in its namespace that select its labels, or whose endpoints contain one of its addresses
// except loopback. Ports whose target cannot be resolved are left out; with untranslatedLabel the
// target is the port itself. UDP ports are included because HTTP/3 needs them. Of several Services
// with a port, only the first counts (comparePrecedence), as in Istio.
func gatewayPorts(s *snapshot.Snapshot, p *mesh.Proxy, labels map[string]string) []gatewayPort {
	w := findWorkload(s, p)
	var found []servedPort
	add := func(svc *mesh.Service, port mesh.Port, target uint32) {
		if target == 0 {
			return
		}
		if IsUntranslated(svc) {
			target = port.Number
		}
		found = append(found, servedPort{svc, gatewayPort{port.Number, target, port.Protocol == mesh.UDP}})
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
	slices.SortFunc(found, comparePrecedence)
	var list []gatewayPort
	for _, x := range found {
		if !slices.ContainsFunc(list, func(o gatewayPort) bool { return o.number == x.number && o.udp == x.udp }) {
			list = append(list, x.gatewayPort)
		}
	}
	return list
}

// comparePrecedence orders ports of Services: those with untranslatedLabel last, then the oldest
// Service first, then by host and target port.
func comparePrecedence(a, b servedPort) int {
	untranslated := func(x servedPort) int {
		if IsUntranslated(x.service) {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(untranslated(a), untranslated(b)),
		a.service.Created.Compare(b.service.Created),
		cmp.Compare(a.service.Host, b.service.Host),
		cmp.Compare(a.target, b.target),
	)
}

// IsUntranslated reports whether a Service has the label by which its ports are not translated to
// target ports for Gateways.
func IsUntranslated(svc *mesh.Service) bool {
	_, found := svc.Labels[untranslatedLabel]
	return found
}

// encodeGatewayPorts formats ports as "80:8080;443:8443;443:8443/udp", sorted.
func encodeGatewayPorts(list []gatewayPort) string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = strconv.FormatUint(uint64(p.number), 10) + ":" + strconv.FormatUint(uint64(p.target), 10)
		if p.udp {
			texts[i] += "/udp"
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, ";")
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
