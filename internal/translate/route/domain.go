package route

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// portForm is how the domains of virtual hosts include the port.
type portForm uint8

const (
	// withoutPort: domains have no port, because Envoy ignores the port in the request
	// (ignore_port_in_host_matching).
	withoutPort portForm = iota
	// withPort: domains have the port of the service; a request without a port means port 80.
	withPort
	// anyHost: the only domain is "*", because the listener receives only requests for this
	// service.
	anyHost
)

// shortNames is which short names of a service a proxy's DNS search domains resolve.
type shortNames uint8

const (
	// No short names: the service or the proxy is not in Kubernetes.
	fullName       shortNames = iota
	otherNamespace            // "reviews.shop" and "reviews.shop.svc"
	ownNamespace              // also "reviews"
)

// reachOf returns which short names of a host proxies can use whose DNS suffix
// ("shop.svc.cluster.local") is suffix: none outside of Kubernetes and for hosts of the cluster
// set, the name alone only in the host's namespace. A host of another Kubernetes namespace has the
// forms with its namespace only.
func reachOf(host mesh.Hostname, suffix string) shortNames {
	_, namespace, _, ok := kubernetesName(string(host))
	own, _, inKubernetes := strings.Cut(suffix, ".svc.")
	switch {
	case !ok || !inKubernetes || host.OfClusterSet():
		return fullName
	case namespace == own:
		return ownNamespace
	default:
		return otherNamespace
	}
}

// kubernetesName splits "reviews.shop.svc.cluster.local" into name and namespace; qualified is
// "reviews.shop". The text after ".svc." is not checked, and the namespace has all text after the
// first dot. ok is false for hosts without ".svc.", a name or a namespace.
func kubernetesName(host string) (name, namespace, qualified string, ok bool) {
	qualified, _, ok = strings.Cut(host, ".svc.")
	if !ok {
		return "", "", "", false
	}
	name, namespace, ok = strings.Cut(qualified, ".")
	return name, namespace, qualified, ok && name != "" && namespace != ""
}

// namesInput is everything that the domains of a virtual host depend on.
type namesInput struct {
	host mesh.Hostname
	port uint32
	// service is nil for a host without a service.
	service *mesh.Service
	reach   shortNames
	aliases memo.List[alias]
	form    portForm
	// relative leaves out the absolute forms of names, with a final dot.
	relative bool
	// ipv4 and ipv6 are the address families of the proxies.
	ipv4, ipv6 bool
}

// alias is another name of a service.
type alias struct {
	service *mesh.Service
	reach   shortNames
}

// names is the name of a virtual host and its domains: all names that requests may use for it,
// without duplicates, in lower case, the full name first.
type names struct {
	name    string // "<host>:<port>"
	host    mesh.Hostname
	port    uint32
	domains []string
}

// namesFor returns the name of a virtual host and its domains, without duplicates and in lower
// case. The first domain is the full name. For the form anyHost the only one is "*".
func namesFor(in namesInput) *names {
	n := &names{name: operation(string(in.host), in.port), host: in.host, port: in.port}
	if in.form == anyHost {
		n.domains = []string{"*"}
		return n
	}
	hosts := []string{bracketed(string(in.host))}
	if in.service != nil {
		hosts = in.serviceNames()
	}
	seen := map[string]bool{}
	for _, host := range hosts {
		for _, d := range in.withPorts(strings.ToLower(host)) {
			if !seen[d] {
				seen[d] = true
				n.domains = append(n.domains, d)
			}
		}
	}
	return n
}

// serviceNames returns the names by which requests address a service, without ports: forms of its
// host and aliases, and the addresses that proxies reach. For a headless service of Kubernetes
// these are the names of its pods instead of addresses; any other headless service has neither.
// in.service must not be nil.
func (in namesInput) serviceNames() []string {
	list := in.appendForms(nil, string(in.host), in.reach)
	for a := range in.aliases.All {
		list = in.appendForms(list, string(a.service.Host), a.reach)
	}
	if in.service.Headless {
		if in.service.Provider != mesh.Kubernetes {
			return list
		}
		for _, name := range slices.Clone(list) {
			list = append(list, "*."+name) // the pods of a StatefulSet: web-0.web
		}
		return list
	}
	for _, a := range in.service.Addresses {
		if addr, err := netip.ParseAddr(a); err == nil && in.reachable(addr) {
			list = append(list, bracketed(addr.String()))
		}
	}
	return list
}

// appendForms appends the full name host, its absolute form with a final dot unless in.relative is
// set, and the short forms that r permits. Outside the own namespace these are "name.namespace" and
// "name.namespace.svc"; in it also the name alone, unless that is "*". An IP address has only one
// form, in brackets for IPv6.
func (in namesInput) appendForms(list []string, host string, r shortNames) []string {
	list = append(list, bracketed(host))
	if _, err := netip.ParseAddr(host); err == nil {
		return list
	}
	if !in.relative {
		list = append(list, host+".")
	}
	name, _, qualified, _ := kubernetesName(host)
	switch {
	case r == ownNamespace && name != "*": // "*" alone would match every host.
		return append(list, name, qualified+".svc", qualified)
	case r != fullName:
		return append(list, qualified, qualified+".svc")
	default:
		return list
	}
}

// reachable reports whether the proxies can reach an address: it is not unspecified, and of a
// family that they have. Proxies with both or no known families reach all.
func (in namesInput) reachable(a netip.Addr) bool {
	return !a.IsUnspecified() && (in.ipv4 == in.ipv6 || a.Is4() == in.ipv4)
}

// withPorts returns the domains of host: without a port in the form withoutPort, else with the
// port, and for port 80 also without.
func (in namesInput) withPorts(host string) []string {
	full := host + ":" + strconv.FormatUint(uint64(in.port), 10)
	switch {
	case in.form == withoutPort:
		return []string{host}
	case in.port == 80:
		return []string{host, full}
	default:
		return []string{full}
	}
}

// bracketed returns an IPv6 address in the form of a Host header, and any other host unchanged.
func bracketed(host string) string {
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
		return "[" + a.String() + "]"
	}
	return host
}

// assignDomains removes duplicate domains, because Envoy refuses a RouteConfiguration with a domain
// in two virtual hosts. The full name of a virtual host takes precedence over short forms and
// addresses of others; otherwise the first virtual host keeps the domain. It returns the virtual
// hosts that have a domain left, in the memory of hosts, and records the indexes of lost domains in
// them.
func assignDomains(hosts []hostInput) []hostInput {
	owner := make(map[string]int, 6*len(hosts))
	claim := func(domain string, i int) bool {
		o, taken := owner[domain]
		if !taken {
			owner[domain] = i
		}
		return !taken || o == i
	}
	for i, h := range hosts {
		claim(h.names.domains[0], i)
	}
	kept := hosts[:0]
	for i, h := range hosts {
		var lost []byte
		left := len(h.names.domains)
		for j, d := range h.names.domains {
			if !claim(d, i) {
				lost = append(strconv.AppendInt(lost, int64(j), 10), ',')
				left--
			}
		}
		if left > 0 {
			h.lost = string(lost)
			kept = append(kept, h)
		}
	}
	return kept
}

// without returns domains without the domains at the indexes in lost, which has the form "3,7,". If
// lost is "", it returns domains itself.
func without(domains []string, lost string) []string {
	if lost == "" {
		return domains
	}
	var kept []string
	for i, d := range domains {
		place := strconv.Itoa(i) + ","
		if rest, cut := strings.CutPrefix(lost, place); cut {
			lost = rest
			continue
		}
		kept = append(kept, d)
	}
	return kept
}
