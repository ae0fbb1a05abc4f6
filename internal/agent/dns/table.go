package dns

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Names is whose names are short ones: those of Kubernetes services near the workload.
type Names struct {
	// Namespace is the workload's.
	Namespace string
	// Domain is the suffix of services' names after the namespace ("svc.cluster.local"); "": no short names.
	Domain string
}

// NamesOf gives them for a workload whose DNS domain is "NAMESPACE.svc.cluster.local".
func NamesOf(namespace, domain string) Names {
	return Names{Namespace: namespace, Domain: strings.TrimPrefix(domain, namespace+".")}
}

// addresses are what a host has, by family, in the order of the table.
type addresses struct{ v4, v6 []netip.Addr }

// table is what is known, by fully qualified names in lower case ("reviews.default.", "*.example.com."). It is immutable.
type table struct {
	hosts map[string]addresses
	// given is what it was made of.
	given mesh.NameTable
}

// newTable reads a name table. Full names count before short ones that are spelled the same.
func newTable(given mesh.NameTable, names Names) *table {
	t := &table{hosts: make(map[string]addresses, 2*len(given)), given: given}
	short := map[string]addresses{}
	for _, host := range slices.Sorted(maps.Keys(given)) {
		e := given[host]
		a := addressesOf(e.IPs)
		if len(a.v4)+len(a.v6) == 0 {
			continue
		}
		t.hosts[canonical(string(host))] = a
		for _, name := range names.short(string(host), e) {
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

// canonical is a name as tables have it.
func canonical(name string) string { return strings.ToLower(dns.Fqdn(name)) }

// short are the shorter names of a Kubernetes host, if it is in the workload's domain: elsewhere they may be others'.
func (n Names) short(host string, e mesh.NameEntry) []string {
	if e.Registry != mesh.Kubernetes || e.ShortName == "" || n.Domain == "" || !strings.HasSuffix(strings.ToLower(host), "."+strings.ToLower(n.Domain)) {
		return nil
	}
	first, _, _ := strings.Cut(n.Domain, ".")
	list := []string{canonical(e.ShortName + "." + e.Namespace), canonical(e.ShortName + "." + e.Namespace + "." + first)}
	if e.Namespace == n.Namespace {
		list = append(list, canonical(e.ShortName))
	}
	return list
}

func addressesOf(ips []string) addresses {
	var a addresses
	for _, text := range ips {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			continue // of a host without any the line does not count
		}
		if ip = ip.Unmap(); ip.Is4() {
			a.v4 = append(a.v4, ip)
		} else {
			a.v6 = append(a.v6, ip.WithZone(""))
		}
	}
	return a
}

// find looks a canonical name up. Resolvers put search domains behind names before they try them as they are; such a name
// stands for the one before the domain, which the caller gives as an alias. ok is false for names that are not the mesh's.
func (t *table) find(name string, search []string) (a addresses, alias string, ok bool) {
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
	if a, ok = t.wildcard(name); ok {
		return a, "", true
	}
	for _, base := range before {
		if a, ok = t.wildcard(base); ok {
			return a, base, true
		}
	}
	return addresses{}, "", false
}

// wildcard finds the longest wildcard that a name falls under.
func (t *table) wildcard(name string) (addresses, bool) {
	for offset, end := dns.NextLabel(name, 0); !end; offset, end = dns.NextLabel(name, offset) {
		if a, ok := t.hosts["*."+name[offset:]]; ok {
			return a, true
		}
	}
	a, ok := t.hosts["*."]
	return a, ok
}
