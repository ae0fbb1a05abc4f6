package adapter

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// ServiceKey identifies a service of a platform.
type ServiceKey struct {
	// Namespace is the namespace of the service in the mesh. It decides which rules and policies
	// apply, and is a part of the identities of the instances. If empty, it is "default".
	Namespace string `json:"namespace,omitempty"`
	// Name is the platform's name of the service, unique in the namespace. Every text is allowed;
	// the name of the ServiceEntry is derived from it.
	Name string `json:"name"`
}

// String returns "namespace/name".
func (k ServiceKey) String() string { return cmp.Or(k.Namespace, DefaultNamespace) + "/" + k.Name }

// Compare orders keys by namespace and name.
func (k ServiceKey) Compare(o ServiceKey) int {
	return cmp.Or(cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

// DefaultNamespace is the namespace of services without one.
const DefaultNamespace = "default"

// Service is a service of a platform with all of its instances. A Service that was passed to a Sink
// must not be changed.
type Service struct {
	ServiceKey `json:",inline"`
	// Hosts are the DNS names that callers use, at least one. The names after the first one are
	// aliases: they have the same ports, addresses and instances.
	Hosts []string `json:"hosts"`
	// Ports are the ports that callers use, at least one.
	Ports []Port `json:"ports"`
	// Addresses are the virtual IP addresses or CIDRs of the service, if it has any. A TCP service
	// should have one: without it, its port is captured for all addresses.
	Addresses []string `json:"addresses,omitempty"`
	// Labels are labels of the service.
	Labels map[string]string `json:"labels,omitempty"`
	// Instances are the running instances. A service without instances exists: callers receive
	// status 503 from their proxy instead of an unknown host.
	Instances []Instance `json:"instances"`
	// SubjectAltNames are the names of which a server certificate of an instance must contain one,
	// if a DestinationRule has callers originate TLS and names none itself.
	SubjectAltNames []string `json:"subjectAltNames,omitempty"`
	// External marks a service outside of the mesh, whose instances have no proxies.
	External bool `json:"external,omitempty"`
	// Created is when the service was created, or zero if the platform does not know. If several
	// objects define one host, the oldest takes precedence.
	Created time.Time `json:"created,omitzero"`
}

// Port is a port of a service.
type Port struct {
	// Name identifies the port within the service: "http". Instance.Ports refers to it.
	Name string `json:"name"`
	// Number is the port that callers use. It should not change, so a platform that assigns random
	// ports to instances needs a fixed one here.
	Number uint32 `json:"number"`
	// Protocol is a name that ServiceEntries accept: HTTP, HTTP2, GRPC, HTTPS, TLS, TCP, MONGO, …
	// If empty, proxies detect it.
	Protocol string `json:"protocol,omitempty"`
	// TargetPort is the port of instances that do not set their own (default: Number).
	TargetPort uint32 `json:"targetPort,omitempty"`
}

// Instance is a running instance of a service.
type Instance struct {
	// ID identifies the instance within its service, for problems and for the guard against
	// removals. If the platform has no identifiers, use the address and port.
	ID string `json:"id"`
	// Address is an IP address, or a DNS name, which proxies then resolve. It may be empty if
	// Network is set: the instance is reached through the gateways of that network.
	Address string `json:"address,omitempty"`
	// Ports are the instance's own port numbers by Port.Name. A port that is not named has the
	// number Port.TargetPort.
	Ports map[string]uint32 `json:"ports,omitempty"`
	// Labels are the labels that subsets select, such as "version".
	Labels map[string]string `json:"labels,omitempty"`
	// Weight is the share of traffic relative to other instances (default 1).
	Weight uint32 `json:"weight,omitempty"`
	// Locality is "region/zone/subzone", or a beginning of it.
	Locality string `json:"locality,omitempty"`
	// Network is the network of the address, if other networks cannot reach it directly.
	Network string `json:"network,omitempty"`
	// ServiceAccount is the workload's service account, if it has a proxy with a certificate.
	// Callers then use mutual TLS and verify the identity spiffe://DOMAIN/ns/NAMESPACE/sa/ACCOUNT.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Health is whether the instance may receive traffic.
	Health Health `json:"health,omitzero"`
	// Held reports whether the platform no longer lists the instance, and it stays in use because
	// nothing shows its removal. It is counted (Status.Held) and changes nothing else. Leave it
	// false unless your platform decides itself what was deregistered.
	Held bool `json:"held,omitempty"`
}

// Health is whether an instance may receive traffic.
type Health int

// The health states. The zero value is Healthy, because many platforms list only healthy instances.
const (
	Healthy Health = iota
	// Unhealthy instances receive no traffic.
	Unhealthy
	// Draining instances finish running requests and receive no others.
	Draining
)

// String returns "healthy", "unhealthy" or "draining". Unknown values are "unhealthy".
func (h Health) String() string {
	switch h {
	case Healthy:
		return "healthy"
	case Draining:
		return "draining"
	default:
		return "unhealthy"
	}
}

// MarshalText returns String().
func (h Health) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText parses what MarshalText returns. The empty text is Healthy; for any other it
// returns an error and leaves h unchanged.
func (h *Health) UnmarshalText(text []byte) error {
	for _, known := range []Health{Healthy, Unhealthy, Draining} {
		if string(text) == known.String() {
			*h = known
			return nil
		}
	}
	if len(text) > 0 {
		return fmt.Errorf("health %q: want healthy, unhealthy or draining", text)
	}
	*h = Healthy
	return nil
}

// Equal reports whether two services are equal, apart from the order of instances and their Held.
// Hosts, ports and addresses must have the same order.
func (s *Service) Equal(o *Service) bool {
	if s.ServiceKey != o.ServiceKey || s.External != o.External || !s.Created.Equal(o.Created) ||
		!slices.Equal(s.Hosts, o.Hosts) || !slices.Equal(s.Ports, o.Ports) ||
		!slices.Equal(s.Addresses, o.Addresses) || !slices.Equal(s.SubjectAltNames, o.SubjectAltNames) ||
		!maps.Equal(s.Labels, o.Labels) {
		return false
	}
	return slices.EqualFunc(sortedInstances(s.Instances), sortedInstances(o.Instances), Instance.Equal)
}

// Equal reports whether two instances are equal in all fields but Held.
func (i Instance) Equal(o Instance) bool {
	return i.ID == o.ID && i.Address == o.Address && i.Weight == o.Weight && i.Locality == o.Locality &&
		i.Network == o.Network && i.ServiceAccount == o.ServiceAccount && i.Health == o.Health &&
		maps.Equal(i.Ports, o.Ports) && maps.Equal(i.Labels, o.Labels)
}

// sortedInstances returns the instances in the order of their IDs: list itself if it is sorted,
// otherwise a sorted copy.
func sortedInstances(list []Instance) []Instance {
	byID := func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) }
	if slices.IsSortedFunc(list, byID) {
		return list
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, byID)
	return list
}
