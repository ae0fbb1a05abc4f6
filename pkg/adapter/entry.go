package adapter

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	networking "istio.io/api/networking/v1alpha3"
)

// PlatformAnnotation is the annotation of a ServiceEntry with the name of the platform that its
// service comes from. The control plane shows it as the provider of the service and its endpoints.
const PlatformAnnotation = "adapter.meshpilot.io/platform"

// ServiceAnnotation is the annotation of a ServiceEntry with ServiceKey.Name.
const ServiceAnnotation = "adapter.meshpilot.io/service"

// Entry is a ServiceEntry with its metadata.
type Entry struct {
	Namespace, Name     string
	Labels, Annotations map[string]string
	Created             time.Time
	Spec                *networking.ServiceEntry
}

// NewEntries converts a service to ServiceEntries: one, or several with the same hosts and ports if
// it has more than maxEndpoints endpoints, which is the limit of a ServiceEntry. Control planes
// merge entries of one host. platform is the name of the platform: "Marathon".
//
// Invalid hosts, ports, addresses and instances are left out, each with a FieldError. There are no
// entries if the name is empty, the namespace is invalid, or no valid host or no valid port is
// left. Nor are there any if the service exceeds a limit (MaxInstances, MaxHosts, MaxPorts).
//
// Only healthy instances become endpoints. The resolution is STATIC, or DNS if the address of an
// instance is a DNS name. Endpoints are in the order of instance IDs.
func NewEntries(platform string, s Service) ([]Entry, []FieldError) {
	r := entryReader{service: &s}
	namespace := cmp.Or(s.Namespace, DefaultNamespace)
	if !isLabel(namespace) {
		r.refuse("namespace", "%q is not a DNS label", namespace)
	}
	if s.Name == "" {
		r.refuse("name", "is empty")
	}
	r.limit("hosts", len(s.Hosts), MaxHosts)
	r.limit("ports", len(s.Ports), MaxPorts)
	r.limit("instances", len(s.Instances), MaxInstances)
	if r.refused {
		return nil, r.problems
	}
	spec := &networking.ServiceEntry{
		Hosts: r.hosts(), Ports: r.ports(), Addresses: r.addresses(), SubjectAltNames: s.SubjectAltNames,
		Location: networking.ServiceEntry_MESH_INTERNAL, Resolution: networking.ServiceEntry_STATIC,
	}
	if s.External {
		spec.Location = networking.ServiceEntry_MESH_EXTERNAL
	}
	r.setEndpoints(spec)
	if r.refused {
		return nil, r.problems
	}
	var entries []Entry
	for n, part := range splitSpec(spec) {
		entries = append(entries, Entry{
			Namespace:   namespace,
			Name:        partName(platform, s.Name, n),
			Labels:      maps.Clone(s.Labels),
			Annotations: map[string]string{PlatformAnnotation: platform, ServiceAnnotation: s.Name},
			Created:     s.Created,
			Spec:        part,
		})
	}
	return entries, r.problems
}

// The limits of a service. A service that exceeds one is refused as a whole. MaxInstances bounds
// the memory that one service can use.
const (
	MaxHosts     = 64
	MaxPorts     = 256
	MaxInstances = 65536
)

// maxEndpoints is the maximum number of endpoints of a ServiceEntry, in Kubernetes' schema of it
// and in the control plane.
const maxEndpoints = 4096

// splitSpec returns spec, or parts of it with at most maxEndpoints endpoints each. In the latter
// case it removes the endpoints of spec.
func splitSpec(spec *networking.ServiceEntry) []*networking.ServiceEntry {
	endpoints := spec.GetEndpoints()
	if len(endpoints) <= maxEndpoints {
		return []*networking.ServiceEntry{spec}
	}
	spec.Endpoints = nil
	var parts []*networking.ServiceEntry
	for chunk := range slices.Chunk(endpoints, maxEndpoints) {
		part := proto.CloneOf(spec)
		part.Endpoints = chunk
		parts = append(parts, part)
	}
	return parts
}

// partName returns the name of a part of a service's ServiceEntries. The first has the name
// EntryName. The byte 0 keeps others apart from the names of services.
func partName(platform, service string, part int) string {
	if part == 0 {
		return EntryName(platform, service)
	}
	return EntryName(platform, service+"\x00"+strconv.Itoa(part))
}

// EntryName returns the name of the first ServiceEntry of a service: "marathon-web". If that has
// more than 50 characters or is no valid name, EntryName replaces invalid characters and appends a
// hash, so that different services have different names.
func EntryName(platform, service string) string {
	const most = 50
	name := strings.ToLower(platform) + "-" + service
	if len(name) <= most && isHost(name) && !strings.Contains(name, "_") {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	valid := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(name[:min(len(name), most)]))
	if valid = strings.Trim(valid, "-"); valid == "" {
		valid = "service"
	}
	return valid + "-" + hex.EncodeToString(hash[:5])
}

// FieldError is a problem of one field of a Service.
type FieldError struct {
	Field  string // "instances[web-1].address"
	Reason string
}

// Error returns "FIELD: REASON".
func (e FieldError) Error() string { return e.Field + ": " + e.Reason }

// entryReader converts one service and collects its problems.
type entryReader struct {
	service  *Service
	problems []FieldError
	refused  bool
}

// addProblem appends a FieldError.
func (r *entryReader) addProblem(field, format string, args ...any) {
	r.problems = append(r.problems, FieldError{field, fmt.Sprintf(format, args...)})
}

// refuse adds a problem and marks the service as unusable.
func (r *entryReader) refuse(field, format string, args ...any) {
	r.refused = true
	r.addProblem(field, format, args...)
}

// limit refuses the service if n exceeds most.
func (r *entryReader) limit(field string, n, most int) {
	if n > most {
		r.refuse(field, "%d exceed the limit of %d", n, most)
	}
}

// hosts returns the valid hosts without duplicates, in their order, in lower case and without a
// final dot. A wildcard "*." is allowed. It adds a problem for each invalid one, such as an IP
// address, and refuses the service if none is left.
func (r *entryReader) hosts() []string {
	var list []string
	for i, h := range r.service.Hosts {
		host := strings.ToLower(strings.TrimSuffix(h, "."))
		_, err := netip.ParseAddr(host)
		switch {
		case err == nil || !isHost(strings.TrimPrefix(host, "*.")):
			r.addProblem(fmt.Sprintf("hosts[%d]", i), "%q is not a DNS name", h)
		case !slices.Contains(list, host):
			list = append(list, host)
		}
	}
	if len(list) == 0 {
		r.refuse("hosts", "no valid host")
	}
	return list
}

// ports returns the valid ports, with protocols in upper case. It adds a problem for each invalid
// port. A port without a name, or with the name or number of another port, is invalid too. It
// refuses the service if none is left.
func (r *entryReader) ports() []*networking.ServicePort {
	var list []*networking.ServicePort
	numbers, names := map[uint32]bool{}, map[string]bool{}
	for i, p := range r.service.Ports {
		field := fmt.Sprintf("ports[%d]", i)
		switch {
		case !isPort(p.Number):
			r.addProblem(field+".number", "%d is not a port number", p.Number)
		case p.TargetPort > maxPort:
			r.addProblem(field+".targetPort", "%d is not a port number", p.TargetPort)
		case p.Name == "":
			r.addProblem(field+".name", "is empty")
		case names[p.Name] || numbers[p.Number]:
			r.addProblem(field, "%s %d has the name or number of another port", p.Name, p.Number)
		default:
			numbers[p.Number], names[p.Name] = true, true
			list = append(list, &networking.ServicePort{
				Name: p.Name, Number: p.Number, Protocol: strings.ToUpper(p.Protocol), TargetPort: p.TargetPort,
			})
		}
	}
	if len(list) == 0 {
		r.refuse("ports", "no valid port")
	}
	return list
}

// addresses returns the valid virtual addresses and ranges as they are written, in their order and
// without duplicates. It adds a problem for each invalid one.
func (r *entryReader) addresses() []string {
	var list []string
	for i, a := range r.service.Addresses {
		ip, err := netip.ParseAddr(a)
		_, prefixErr := netip.ParsePrefix(a)
		switch {
		case (err != nil || ip.Zone() != "" || ip.IsUnspecified()) && prefixErr != nil:
			r.addProblem(fmt.Sprintf("addresses[%d]", i), "%q is neither an IP address nor a CIDR", a)
		case !slices.Contains(list, a):
			list = append(list, a)
		}
	}
	return list
}

// setEndpoints sets the endpoints, in the order of their IDs, and the resolution DNS if one has a
// DNS name; then endpoints without an address are left out with a problem. Instances that are not
// healthy or are invalid have no endpoint. Of instances with the same ID, only the first one is
// used, which is a problem.
func (r *entryReader) setEndpoints(spec *networking.ServiceEntry) {
	ids := make(map[string]bool, len(r.service.Instances))
	for _, i := range sortedInstances(r.service.Instances) {
		field := "instances[" + i.ID + "]"
		address, named, ok := r.address(field, &i)
		switch {
		case !ok:
			continue
		case ids[i.ID]:
			r.addProblem(field, "another instance has the same ID")
			continue
		}
		ids[i.ID] = true
		if i.Health != Healthy {
			continue
		}
		if named {
			spec.Resolution = networking.ServiceEntry_DNS
		}
		spec.Endpoints = append(spec.Endpoints, &networking.WorkloadEntry{
			Address: address, Ports: r.ownPorts(field, spec.GetPorts(), &i), Labels: maps.Clone(i.Labels),
			Weight:   i.Weight,
			Locality: i.Locality, Network: i.Network, ServiceAccount: i.ServiceAccount,
		})
	}
	if spec.GetResolution() == networking.ServiceEntry_DNS {
		spec.Endpoints = slices.DeleteFunc(spec.Endpoints, func(e *networking.WorkloadEntry) bool {
			if e.GetAddress() == "" {
				r.addProblem("instances", "an instance of network %q without an address needs IP addresses for all others", e.GetNetwork())
			}
			return e.GetAddress() == ""
		})
	}
}

// address returns the address of an instance in its canonical form, and reports whether it is a DNS
// name. The address may be "" if the instance has a network, whose gateways route to it. ok is
// false, with a problem, if the address is invalid or the instance has no ID.
func (r *entryReader) address(field string, i *Instance) (address string, named, ok bool) {
	address = strings.ToLower(strings.TrimSuffix(i.Address, "."))
	ip, err := netip.ParseAddr(address)
	switch {
	case i.ID == "":
		r.addProblem("instances", "an instance has no ID")
	case address == "" && i.Network == "":
		r.addProblem(field+".address", "is missing, and so is the network whose gateways would route to it")
	case address == "":
		return "", false, true
	case err == nil && (ip.Zone() != "" || ip.IsUnspecified()), err != nil && !isHost(address):
		r.addProblem(field+".address", "%q is neither an IP address nor a DNS name", i.Address)
	case err == nil:
		return ip.Unmap().String(), false, true
	default:
		return address, true, true
	}
	return "", false, false
}

// ownPorts returns the instance's port numbers, by the names of the service's ports. A number that
// equals the port's target port, or its number without one, is left out. So are invalid numbers,
// with a problem. It returns nil if none is left.
func (r *entryReader) ownPorts(field string, ports []*networking.ServicePort, i *Instance) map[string]uint32 {
	var own map[string]uint32
	for _, p := range ports {
		number, found := i.Ports[p.GetName()]
		switch {
		case !found || number == cmp.Or(p.GetTargetPort(), p.GetNumber()):
		case !isPort(number):
			r.addProblem(field+".ports["+p.GetName()+"]", "%d is not a port number", number)
		default:
			if own == nil {
				own = map[string]uint32{}
			}
			own[p.GetName()] = number
		}
	}
	return own
}

const maxPort = 65535

// isPort reports whether n is a port number, 1 to maxPort.
func isPort(n uint32) bool { return n >= 1 && n <= maxPort }

// isHost reports whether text is a DNS name in lower case. Underscores are allowed, because several
// platforms allow them. A name whose last label is a number is refused: it is a mistyped IP
// address.
func isHost(text string) bool {
	if len(text) > 253 {
		return false
	}
	labels := strings.Split(text, ".")
	for _, l := range labels {
		if !isLabel(strings.ReplaceAll(l, "_", "a")) {
			return false
		}
	}
	return strings.Trim(labels[len(labels)-1], "0123456789") != ""
}

// isLabel reports whether text is a DNS label: 1 to 63 lower-case letters, digits or hyphens,
// without a hyphen at either end.
func isLabel(text string) bool {
	if text == "" || len(text) > 63 || text[0] == '-' || text[len(text)-1] == '-' {
		return false
	}
	for _, c := range []byte(text) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
