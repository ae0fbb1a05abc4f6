package debug

import (
	"encoding/json"
	"strconv"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// sidecarScope is the configuration that is visible to a proxy, in istiod's form of sidecarz.
type sidecarScope struct {
	Name                   string                   `json:"name"`
	Namespace              string                   `json:"namespace"`
	Version                string                   `json:"version"`
	Sidecar                json.RawMessage          `json:"sidecar,omitempty"`
	OutboundTrafficPolicy  map[string]string        `json:"outboundTrafficPolicy"`
	Services               []Service                `json:"services"`
	ServicesByHostname     map[string]Service       `json:"servicesByHostname"`
	EgressListenerServices [][]Service              `json:"egressListenerServices"`
	DestinationRules       map[string][]appliedRule `json:"destinationRules"`
	VirtualServices        []namespacedName         `json:"virtualServices"`
}

// appliedRule is the merged DestinationRule that a proxy uses for a host, and the objects it was
// merged from.
type appliedRule struct {
	From []namespacedName `json:"from"`
	Rule json.RawMessage  `json:"rule"`
}

// sidecarz serves the services and rules that are visible to the proxy in ?proxyID=. It returns a
// Refusal if the parameter is missing, or no such proxy is connected that the caller may see.
// Without a Sidecar the scope is named default-sidecar.
func (p *Pages) sidecarz(q question) (answer, error) {
	c, err := p.findConnection(q)
	if err != nil {
		return answer{}, err
	}
	s := p.Snapshot()
	v := view.Build(s, view.KeyFor(s, c.Proxy))
	out := sidecarScope{
		Name:                   "default-sidecar",
		Namespace:              c.Proxy.Namespace,
		Version:                strconv.FormatUint(s.Version, 10),
		OutboundTrafficPolicy:  map[string]string{"mode": "REGISTRY_ONLY"},
		Services:               []Service{},
		ServicesByHostname:     map[string]Service{},
		EgressListenerServices: [][]Service{},
		DestinationRules:       map[string][]appliedRule{},
		VirtualServices:        []namespacedName{},
	}
	if v.Sidecar != nil {
		out.Name, out.Sidecar = v.Sidecar.Name, specJSON(v.Sidecar)
	}
	if v.OutboundAllowAny() {
		out.OutboundTrafficPolicy["mode"] = "ALLOW_ANY"
	}
	for _, svc := range v.Services {
		x := newService(svc)
		out.Services = append(out.Services, x)
		out.ServicesByHostname[x.Hostname] = x
		if r := v.DestinationRule(svc.Host); r != nil {
			rule := appliedRule{
				Rule: asJSON(
					map[string]any{"name": r.From[0].Name, "namespace": r.Namespace, "Spec": protoJSON(r.Spec)},
				),
			}
			for _, k := range r.From {
				rule.From = append(rule.From, namespacedName{k.Namespace, k.Name})
			}
			out.DestinationRules[x.Hostname] = []appliedRule{rule}
		}
	}
	for _, e := range v.Egress {
		list := []Service{}
		for _, svc := range e.Services {
			list = append(list, newService(svc))
		}
		out.EgressListenerServices = append(out.EgressListenerServices, list)
		for _, vs := range e.VirtualServices {
			out.VirtualServices = append(out.VirtualServices, namespacedName{vs.Config.Namespace, vs.Config.Name})
		}
	}
	return jsonAnswer(q, out)
}

// target is one service port that a workload serves, in istiod's form of instancesz.
type target struct {
	Service Service
	Port    targetPort
}

type targetPort struct {
	RegisteredPort
	TargetPort uint32
}

// instancesz serves the service ports of each connected proxy that the caller may see, by the name
// of the proxy. The list is empty for proxies other than sidecars.
func (p *Pages) instancesz(q question) (answer, error) {
	s := p.Snapshot()
	out := map[string][]target{}
	for _, c := range p.visibleConnections(q.caller) {
		list := []target{}
		if c.Proxy.Type == mesh.SidecarProxy {
			for _, i := range view.Build(s, view.KeyFor(s, c.Proxy)).Inbound {
				list = append(list, target{newService(i.Service), targetPort{newPort(i.Port), i.TargetPort}})
			}
		}
		out[DisplayName(c.Proxy)] = list
	}
	return jsonAnswer(q, out)
}
