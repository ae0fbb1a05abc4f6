package dns

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ShortNames determines which Kubernetes services the workload may look up by short names.
type ShortNames struct {
	// Namespace is the workload's namespace.
	Namespace string
	// Domain is the suffix of service names after the namespace ("svc.cluster.local"). If empty,
	// there are no short names.
	Domain string
}

// NewShortNames returns the ShortNames of a workload whose DNS domain is
// "NAMESPACE.svc.cluster.local". A domain that does not begin with the namespace is used whole.
func NewShortNames(namespace, domain string) ShortNames {
	return ShortNames{Namespace: namespace, Domain: strings.TrimPrefix(domain, namespace+".")}
}

// addresses are the addresses of a host by IP version, in the order of the table.
type addresses struct{ v4, v6 []netip.Addr }

// table maps fully qualified names in lower case ("reviews.default.", "*.example.com.") to
// addresses. It is immutable.
type table struct {
	hosts map[string]addresses
	// source is the name table from which it was built.
	source mesh.NameTable
}

// newTable returns a table of the given hosts, which must not change afterwards. Hosts without a
// valid address are left out. If a full name equals another host's short name, the full name wins;
// if two hosts have the same short name, it belongs to the first host by name.
func newTable(given mesh.NameTable, names ShortNames) *table {
	t := &table{hosts: make(map[string]addresses, 2*len(given)), source: given}
	short := map[string]addresses{}
	for _, host := range slices.Sorted(maps.Keys(given)) {
		e := given[host]
		a := parseAddresses(e.IPs)
		if len(a.v4)+len(a.v6) == 0 {
			continue
		}
		t.hosts[canonicalName(string(host))] = a
		for _, name := range names.namesOf(string(host), e) {
			if _, taken := short[name]; !taken {
				short[name] = a
			}
		}
	}
	for name, a := range short {
		if _, taken := t.hosts[name]; !taken {
			t.hosts[name] = a
		}
	}
	return t
}

// canonicalName returns a name in the form of the table's keys: fully qualified, in lower case.
func canonicalName(name string) string { return strings.ToLower(dns.Fqdn(name)) }

// namesOf returns the short names of a Kubernetes host: NAME.NAMESPACE, NAME.NAMESPACE.svc (the
// first label of the domain) and, in the workload's own namespace, NAME. It returns nil for hosts
// of other registries, without a short name, or outside the workload's domain, as all hosts are if
// that is empty.
func (n ShortNames) namesOf(host string, e mesh.NameEntry) []string {
	if e.Registry != mesh.Kubernetes || e.ShortName == "" || n.Domain == "" ||
		!strings.HasSuffix(strings.ToLower(host), "."+strings.ToLower(n.Domain)) {
		return nil
	}
	first, _, _ := strings.Cut(n.Domain, ".")
	list := []string{
		canonicalName(e.ShortName + "." + e.Namespace),
		canonicalName(e.ShortName + "." + e.Namespace + "." + first),
	}
	if e.Namespace == n.Namespace {
		list = append(list, canonicalName(e.ShortName))
	}
	return list
}

// parseAddresses returns the addresses by IP version, without zones. IPv4 addresses mapped to IPv6
// count as IPv4. Invalid ones are skipped.
func parseAddresses(ips []string) addresses {
	var a addresses
	for _, text := range ips {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		if ip = ip.Unmap(); ip.Is4() {
			a.v4 = append(a.v4, ip)
		} else {
			a.v6 = append(a.v6, ip.WithZone(""))
		}
	}
	return a
}

// lookup returns the addresses of a canonical name, or false if the name is not in the mesh.
// Resolvers append search domains before they try a name as it is, so names without one are tried
// too. The order is exact name, exact names without a search domain, wildcards of the name,
// wildcards of the shorter names. If a shorter name matches, alias is that name, otherwise "".
func (t *table) lookup(name string, search []string) (a addresses, alias string, ok bool) {
	if a, ok = t.hosts[name]; ok {
		return a, "", true
	}
	before := make([]string, 0, len(search))
	for _, domain := range search {
		if base, has := strings.CutSuffix(name, "."+domain); has && base != "" {
			before = append(before, base+".")
		}
	}
	for _, base := range before {
		if a, ok = t.hosts[base]; ok {
			return a, base, true
		}
	}
	if a, ok = t.lookupWildcard(name); ok {
		return a, "", true
	}
	for _, base := range before {
		if a, ok = t.lookupWildcard(base); ok {
			return a, base, true
		}
	}
	return addresses{}, "", false
}

// lookupWildcard returns the addresses of the longest wildcard that matches the name, or false if
// none does. The wildcard "*." matches every name. The name itself is not looked up.
func (t *table) lookupWildcard(name string) (addresses, bool) {
	for offset, end := dns.NextLabel(name, 0); !end; offset, end = dns.NextLabel(name, offset) {
		if a, ok := t.hosts["*."+name[offset:]]; ok {
			return a, true
		}
	}
	a, ok := t.hosts["*."]
	return a, ok
}
