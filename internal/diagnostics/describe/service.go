package describe

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Service is what applies to calls of a service, for callers in its own namespace.
type Service struct {
	Host      string   `json:"host"`
	Namespace string   `json:"namespace"`
	Registry  string   `json:"registry"`
	Addresses []string `json:"addresses,omitempty"`
	Ports     []Port   `json:"ports"`
	// Endpoints is the number of endpoints, and Healthy that of the healthy ones.
	Endpoints int `json:"endpoints"`
	Healthy   int `json:"healthyEndpoints"`
	// WithoutTLS is the number of endpoints that do not accept mutual TLS.
	WithoutTLS      int              `json:"endpointsWithoutMutualTLS"`
	DestinationRule *DestinationRule `json:"destinationRule,omitempty"`
	VirtualServices []VirtualService `json:"virtualServices,omitempty"`
	// Gateways are the servers through which VirtualServices lead here from outside the mesh.
	Gateways []Exposure `json:"gateways,omitempty"`
	Warnings []string   `json:"warnings,omitempty"`

	keys map[config.Key]bool
}

// Port is a port of a service. Target is that of the workload, or 0 if it is not the same at all of
// them.
type Port struct {
	Name     string `json:"name"`
	Number   uint32 `json:"number"`
	Protocol string `json:"protocol"`
	Target   uint32 `json:"targetPort,omitempty"`
}

// Ports returns the ports of a service, which are never nil.
func Ports(svc *mesh.Service) []Port {
	list := []Port{}
	for _, p := range svc.Ports {
		list = append(list, Port{p.Name, p.Number, string(p.Protocol), p.Target})
	}
	return list
}

// DestinationRule is the merged rule for a service.
type DestinationRule struct {
	From []string `json:"from"`
	// TLS is the mode of TLS that callers use; "" if the rule has none.
	TLS string `json:"tls,omitempty"`
	// Policy are the names of the other settings of the traffic policy.
	Policy  []string `json:"trafficPolicy,omitempty"`
	Subsets []Subset `json:"subsets,omitempty"`
}

// Subset is a subset of a service.
type Subset struct {
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels,omitempty"`
	Endpoints int               `json:"endpoints"`
	// Matches is set if the described workload is in the subset.
	Matches bool `json:"matches,omitempty"`
}

// DescribeService returns ports, endpoints, VirtualServices and Gateways of a service, and the
// DestinationRule for clients in its own namespace. It includes VirtualServices of any namespace
// that route to the service, or that have its host for sidecars in its namespace. It adds a warning
// if a service with static endpoints has no healthy one.
func DescribeService(s *snapshot.Snapshot, svc *mesh.Service) *Service {
	d := &Service{
		Host: string(svc.Host), Namespace: svc.Namespace, Registry: string(svc.Provider), Addresses: svc.Addresses,
		Ports: Ports(svc), keys: map[config.Key]bool{},
	}
	set := s.Endpoints(svc.ServiceKey)
	d.countEndpoints(set)
	if rule := s.DestinationRule(svc.Namespace, svc.ServiceKey); rule != nil {
		d.addRule(rule, set)
	}
	for _, vs := range s.VirtualServices() {
		if x, ok := newVirtualService(vs, svc); ok {
			d.VirtualServices = append(d.VirtualServices, x)
			for _, k := range vs.From {
				d.keys[k] = true
			}
			d.addExposures(s, vs)
		}
	}
	if svc.Resolution == mesh.Static && d.Healthy == 0 {
		d.Warnings = append(d.Warnings, fmt.Sprintf("%s has no healthy endpoint: calls get 503", d.Host))
	}
	return d
}

// Keys returns the keys of all objects that the description mentions.
func (d *Service) Keys() map[config.Key]bool { return d.keys }

// countEndpoints sets the numbers of all endpoints, healthy ones and those without mutual TLS. An
// endpoint with several ports counts once, with the state of its first one.
func (d *Service) countEndpoints(set *snapshot.EndpointSet) {
	seen := map[string]bool{}
	for _, e := range set.Endpoints {
		if id := e.Workload + " " + e.Address; !seen[id] {
			seen[id] = true
			d.Endpoints++
			if e.Health == mesh.Healthy {
				d.Healthy++
			}
			if !e.TLS {
				d.WithoutTLS++
			}
		}
	}
}

// addRule sets d.DestinationRule to the merged rule, with its TLS mode, the names of other
// policies, and its subsets. Each subset has the number of endpoints in set that it selects. An
// endpoint with several ports is counted once. It records the keys of the rule's objects in d.keys.
func (d *Service) addRule(rule *snapshot.DestinationRule, set *snapshot.EndpointSet) {
	r := &DestinationRule{}
	for _, k := range rule.From {
		d.keys[k] = true
		r.From = append(r.From, k.String())
	}
	policy := rule.Spec.GetTrafficPolicy()
	if policy.GetTls() != nil {
		r.TLS = policy.GetTls().GetMode().String()
	}
	r.Policy = setFields(policy, "tls")
	for _, subset := range rule.Spec.GetSubsets() {
		x := Subset{Name: subset.GetName(), Labels: subset.GetLabels()}
		seen := map[string]bool{}
		for _, e := range set.Endpoints {
			if id := e.Workload + " " + e.Address; x.selects(e.Labels) && !seen[id] {
				seen[id] = true
				x.Endpoints++
			}
		}
		r.Subsets = append(r.Subsets, x)
	}
	d.DestinationRule = r
}

// setFields returns the JSON names of the fields of a message that are set, sorted. It leaves out
// the field with the name without.
func setFields(m proto.Message, without string) []string {
	var names []string
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if f.JSONName() != without {
			names = append(names, f.JSONName())
		}
		return true
	})
	slices.Sort(names)
	return names
}

// selects reports whether an endpoint with these labels is in the subset. A subset without labels
// selects all endpoints.
func (s Subset) selects(labels map[string]string) bool {
	return len(s.Labels) == 0 || snapshot.SelectorMatches(s.Labels, labels)
}

// markSubsets sets Matches of each subset of the DestinationRule to whether it selects a workload
// with these labels. Without a DestinationRule it does nothing.
func (d *Service) markSubsets(labels map[string]string) {
	if d.DestinationRule == nil {
		return
	}
	for i := range d.DestinationRule.Subsets {
		x := &d.DestinationRule.Subsets[i]
		x.Matches = x.selects(labels)
	}
}

// Exposure is a server of a Gateway.
type Exposure struct {
	Gateway  string   `json:"gateway"`
	Port     uint32   `json:"port"`
	Protocol string   `json:"protocol"`
	Hosts    []string `json:"hosts"`
	// Addresses are the addresses of the gateway's Services outside the cluster.
	Addresses       []string `json:"addresses,omitempty"`
	VirtualServices []string `json:"virtualServices,omitempty"`
}

// addExposures adds the servers that serve a host of a VirtualService, of the Gateways to which it
// is bound. It records the keys of these Gateways in d.keys, even if no server of theirs does.
// Gateways that do not exist are skipped.
func (d *Service) addExposures(s *snapshot.Snapshot, vs *snapshot.VirtualService) {
	for _, name := range vs.Gateways {
		namespace, name, ok := strings.Cut(name, "/")
		c := s.Config(config.Key{Kind: api.Gateway, Namespace: namespace, Name: name})
		if !ok || c == nil {
			continue
		}
		d.keys[c.Key] = true
		spec := config.Spec[*networking.Gateway](c)
		for _, server := range spec.GetServers() {
			hosts := exposedHosts(server.GetHosts(), c.Namespace, vs)
			if len(hosts) == 0 {
				continue
			}
			d.Gateways = append(d.Gateways, Exposure{
				Gateway: c.Key.String(), Port: server.GetPort().GetNumber(), Protocol: server.GetPort().GetProtocol(),
				Hosts:     hosts,
				Addresses: externalAddresses(s, spec.GetSelector()), VirtualServices: []string{vs.Config.Key.String()},
			})
		}
	}
}

// exposedHosts returns the hosts of vs that one of a server's hosts covers or is covered by.
// servers are the server's hosts, perhaps with a namespace, "." or "*" before "/". A host with
// another namespace than that of vs is not served.
func exposedHosts(servers []string, gatewayNamespace string, vs *snapshot.VirtualService) (list []string) {
	for _, h := range vs.Hosts {
		for _, text := range servers {
			namespace, host, qualified := strings.Cut(text, "/")
			switch {
			case !qualified:
				namespace, host = "*", text
			case namespace == ".":
				namespace = gatewayNamespace
			}
			served := mesh.Hostname(strings.ToLower(host))
			if (namespace == "*" || namespace == vs.Config.Namespace) && (served.Covers(h) || h.Covers(served)) {
				list = append(list, string(h))
				break
			}
		}
	}
	return list
}

// externalAddresses returns the addresses outside the cluster of the Services whose selectors
// include a Gateway's selector. It returns nil if the Gateway has none. They are sorted and without
// duplicates.
func externalAddresses(s *snapshot.Snapshot, selector map[string]string) (list []string) {
	for _, svc := range s.Services() {
		if len(selector) > 0 && len(svc.Selector) > 0 && snapshot.SelectorMatches(selector, svc.Selector) {
			list = append(list, svc.External...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
