package describe

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Proxy is what applies to one proxy and its workload. Objects are named KIND/NAMESPACE/NAME.
type Proxy struct {
	// Name is NAME.NAMESPACE. Type is sidecar or router.
	Name      string            `json:"name"`
	Type      string            `json:"type"`
	Addresses []string          `json:"addresses,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Account   string            `json:"serviceAccount,omitempty"`
	Envoy     string            `json:"envoyVersion,omitempty"`
	// Services are the services that the workload serves.
	Services []*Service `json:"services"`
	// MutualTLS is nil for a router.
	MutualTLS *MutualTLS `json:"mutualTLS,omitempty"`
	// AuthorizationPolicies are the policies that apply to the workload, in Envoy's order of
	// evaluation: CUSTOM, DENY, ALLOW, then AUDIT.
	AuthorizationPolicies []Policy `json:"authorizationPolicies"`
	// Objects are the other objects that select the proxy.
	Objects []string `json:"objects"`
	// Gateways are the servers of a router.
	Gateways []Exposure `json:"gateways,omitempty"`
	Warnings []string   `json:"warnings,omitempty"`

	keys map[config.Key]bool
}

// MutualTLS is the mode of mutual TLS of a workload for inbound connections.
type MutualTLS struct {
	Mode string `json:"mode"`
	// Ports has the ports with another mode.
	Ports map[string]string `json:"ports,omitempty"`
	// From are the PeerAuthentications, from the mesh's to the workload's; none for the default.
	From []string `json:"from,omitempty"`
}

// Policy is an AuthorizationPolicy.
type Policy struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Action    string `json:"action"`
	Rules     int    `json:"rules"`
	// DryRun is set if the policy is evaluated and logged, but not enforced.
	DryRun bool `json:"dryRun,omitempty"`
}

// DescribeProxy returns the services, policies, Gateways and other objects that apply to a proxy,
// with warnings. Gateways are set for routers only, mutual TLS modes for other proxies only.
func DescribeProxy(s *snapshot.Snapshot, p *mesh.Proxy) *Proxy {
	v := view.Build(s, view.KeyFor(s, p))
	d := &Proxy{
		Name: p.Name + "." + p.Namespace, Type: string(p.Type), Labels: view.WorkloadLabels(s, p),
		Account:  p.Metadata.ServiceAccount,
		Services: []*Service{}, AuthorizationPolicies: []Policy{}, Objects: []string{}, keys: map[config.Key]bool{},
	}
	for _, a := range p.Addresses {
		d.Addresses = append(d.Addresses, a.String())
	}
	if p.EnvoyVersion != (mesh.EnvoyVersion{}) {
		d.Envoy = p.EnvoyVersion.String()
	}
	d.addServices(s, v)
	d.addObjects(s, v)
	if p.Type == mesh.RouterProxy {
		d.addGateways(v)
	} else {
		modes := v.Key.PeerModes(s)
		for _, k := range modes.From {
			d.keys[k] = true
		}
		d.MutualTLS = NewMutualTLS(modes)
		d.warnAboutTLS()
	}
	return d
}

// Keys returns the keys of all objects that the description of the proxy and of its services
// mentions.
func (d *Proxy) Keys() map[config.Key]bool {
	keys := maps.Clone(d.keys)
	for _, s := range d.Services {
		maps.Copy(keys, s.keys)
	}
	return keys
}

// addServices adds the services of the View's inbound ports, and a warning if a sidecar has none.
// They are sorted by host. Each port has its target port, and each subset whether it matches the
// proxy.
func (d *Proxy) addServices(s *snapshot.Snapshot, v *view.View) {
	targets := map[*mesh.Service]map[uint32]uint32{}
	var order []*mesh.Service
	for _, i := range v.Inbound {
		if targets[i.Service] == nil {
			targets[i.Service] = map[uint32]uint32{}
			order = append(order, i.Service)
		}
		targets[i.Service][i.Port.Number] = i.TargetPort
	}
	slices.SortFunc(order, func(a, b *mesh.Service) int { return strings.Compare(string(a.Host), string(b.Host)) })
	for _, svc := range order {
		x := DescribeService(s, svc)
		for i := range x.Ports {
			x.Ports[i].Target = targets[svc][x.Ports[i].Number]
		}
		x.markSubsets(d.Labels)
		d.Services = append(d.Services, x)
	}
	if len(order) == 0 && v.Key.Type == mesh.SidecarProxy {
		d.Warnings = append(d.Warnings, "no service has this workload as an endpoint: calls to it pass through as TCP, and it has no inbound routes")
	}
}

// addObjects adds the AuthorizationPolicies of the View in their order of evaluation, and the keys
// of other objects that apply to its proxies. Sidecar, RequestAuthentications, Telemetries,
// EnvoyFilters, WasmPlugins and TrafficExtensions are sorted by key. The keys are also recorded in
// d.keys.
func (d *Proxy) addObjects(s *snapshot.Snapshot, v *view.View) {
	for _, c := range s.Policies(api.AuthorizationPolicy, v.Key.Policies.Authorization) {
		d.keys[c.Key] = true
		spec := config.Spec[*security.AuthorizationPolicy](c)
		dryRun, _ := config.DryRun(c) // a malformed value is a Problem of its own
		d.AuthorizationPolicies = append(d.AuthorizationPolicies, Policy{
			Namespace: c.Namespace, Name: c.Name, Action: spec.GetAction().String(), Rules: len(spec.GetRules()),
			DryRun: dryRun,
		})
	}
	order := []string{"CUSTOM", "DENY", "ALLOW", "AUDIT"}
	slices.SortStableFunc(d.AuthorizationPolicies, func(a, b Policy) int {
		return slices.Index(order, a.Action) - slices.Index(order, b.Action)
	})
	attached := []config.Key{v.Key.Sidecar}
	for _, kind := range []api.Kind{
		api.RequestAuthentication, api.Telemetry, api.EnvoyFilter, api.WasmPlugin, api.TrafficExtension,
	} {
		for _, c := range s.Configs(kind) {
			if v.Key.Policies.Has(c.Key) || v.Key.Telemetry.Has(c.Key) || v.Key.EnvoyFilterPatches.Has(c.Key) ||
				v.Key.Plugins.Has(c.Key) {
				attached = append(attached, c.Key)
			}
		}
	}
	slices.SortFunc(attached, config.Key.Compare)
	for _, k := range attached {
		if k != (config.Key{}) {
			d.keys[k] = true
			d.Objects = append(d.Objects, k.String())
		}
	}
}

// NewMutualTLS returns a workload's mutual TLS mode, its modes by port and the PeerAuthentications
// that define them as texts. Ports is nil if no port has a mode of its own.
func NewMutualTLS(m snapshot.PeerModes) *MutualTLS {
	t := &MutualTLS{Mode: m.Mode.String()}
	for port, mode := range m.Ports {
		if t.Ports == nil {
			t.Ports = map[string]string{}
		}
		t.Ports[strconv.FormatUint(uint64(port), 10)] = mode.String()
	}
	for _, k := range m.From {
		t.From = append(t.From, k.String())
	}
	return t
}

// warnAboutTLS adds a warning for each DestinationRule whose TLS mode makes all calls to the
// workload fail. It skips workloads with modes by port. Only STRICT with DISABLE or SIMPLE, and
// DISABLE with ISTIO_MUTUAL or MUTUAL, are reported.
func (d *Proxy) warnAboutTLS() {
	for _, s := range d.Services {
		if s.DestinationRule == nil || len(d.MutualTLS.Ports) > 0 {
			continue
		}
		mode, calls := d.MutualTLS.Mode, s.DestinationRule.TLS
		switch {
		case mode == "STRICT" && (calls == "DISABLE" || calls == "SIMPLE"):
			d.Warnings = append(d.Warnings, fmt.Sprintf(
				"calls to %s fail: its DestinationRule has TLS mode %s, and the workload accepts mutual TLS only (STRICT)", s.Host, calls))
		case mode == "DISABLE" && (calls == "ISTIO_MUTUAL" || calls == "MUTUAL"):
			d.Warnings = append(d.Warnings, fmt.Sprintf(
				"calls to %s fail: its DestinationRule has TLS mode %s, and the workload accepts plain text only (DISABLE)", s.Host, calls))
		}
	}
}

// addGateways adds the servers that a router serves, with the VirtualServices of their hosts, and
// records their keys. It adds a warning if no Gateway selects the router, and does nothing for
// other proxies.
func (d *Proxy) addGateways(v *view.View) {
	g := v.Gateway()
	if g == nil {
		return
	}
	for _, l := range g.Listeners {
		for _, server := range l.Servers {
			d.keys[server.Object.Key] = true
			x := Exposure{
				Gateway: server.Object.Key.String(), Port: server.Port(), Protocol: string(server.Protocol),
				Hosts: server.Spec.GetHosts(),
			}
			for _, vs := range v.VirtualServicesOf(server.Gateway) {
				if server.ServesHostOf(vs) {
					for _, k := range vs.From {
						d.keys[k] = true
					}
					x.VirtualServices = append(x.VirtualServices, vs.Config.Key.String())
				}
			}
			d.Gateways = append(d.Gateways, x)
		}
	}
	if len(d.Gateways) == 0 {
		d.Warnings = append(d.Warnings, "no Gateway selects this proxy: it listens at no port")
	}
}
