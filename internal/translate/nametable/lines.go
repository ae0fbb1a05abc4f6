package nametable

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// input is everything that the lines of one service depend on. Fields that do not affect them are
// zero, so that as many Views as possible share them.
type input struct {
	service *mesh.Service
	// ipv4 and ipv6 are the address families of the callers. They apply to cluster IPs and
	// allocated addresses.
	ipv4, ipv6 bool
	// endpoints, network and cluster are set only for services without an address.
	endpoints *snapshot.EndpointSet
	network   mesh.Network
	cluster   mesh.ClusterID
	// clusterOnly limits the addresses of the service, but not of its pods, to those endpoints of
	// the callers' cluster.
	clusterOnly bool
}

// inputFor returns the input of a service's lines. ok is false if the table has no lines of the
// service, so that DNS queries go to the application's usual resolvers. That applies to Services of
// type ExternalName, which are CNAMEs there, and to services without addresses, unless they are
// Passthrough.
func inputFor(v *view.View, svc *mesh.Service) (in input, ok bool) {
	switch {
	case svc.Resolution == mesh.Alias:
		return input{}, false
	case len(svc.Addresses) > 0:
		in = input{service: svc}
		if filtersByFamily(svc) {
			in.ipv4, in.ipv6 = v.Key.IPv4, v.Key.IPv6
		}
		return in, true
	case svc.Resolution == mesh.Passthrough:
		return input{
			service: svc, endpoints: v.Endpoints(svc), network: v.Key.Network, cluster: v.Key.Cluster,
			clusterOnly: v.Settings.Features.LocalHeadlessNames,
		}, true
	default:
		return input{}, false
	}
}

// filtersByFamily reports whether callers receive only addresses of their own families. It returns
// true for Kubernetes Services and for services with allocated addresses. The addresses in a
// ServiceEntry are always included, because proxies capture them independently of the family.
func filtersByFamily(svc *mesh.Service) bool {
	return svc.Provider == mesh.Kubernetes || len(svc.Allocated) > 0
}

// lines are the encoded entries of one service.
type lines struct {
	in input
	// own is the entry of the service's host, nil if it has no address.
	own []byte
	// pods are the entries of endpoints with a hostname, sorted by host.
	pods []pod
	// hash is the hash of own and pods, by which equal tables are found.
	hash uint64
}

type pod struct {
	host mesh.Hostname
	line []byte
}

// newLines returns the lines of a service in the name table: of its host, if it has addresses, and
// of the hostnames of its endpoints. If in.endpoints is nil, the host has virtualIPs and there are
// no hostnames. Otherwise both have the addresses that endpointIPs returns. Only lines of
// Kubernetes Services outside the cluster set, and of pods, have a short name.
func newLines(in input) *lines {
	l := &lines{in: in}
	e := mesh.NameEntry{Registry: in.service.Provider, IPs: in.virtualIPs()}
	if in.service.Provider == mesh.Kubernetes && !in.service.Host.OfClusterSet() {
		e.ShortName, e.Namespace = in.service.Name, in.service.Namespace
	}
	if in.endpoints != nil {
		var named map[string][]string
		e.IPs, named = in.endpointIPs()
		for name, ips := range named {
			host := mesh.Hostname(name) + "." + in.service.Host
			l.pods = append(l.pods, pod{host, mesh.AppendName(nil, host, mesh.NameEntry{
				IPs:       ips,
				Registry:  in.service.Provider,
				ShortName: name + "." + in.service.Name,
				Namespace: in.service.Namespace,
			})})
		}
		slices.SortFunc(l.pods, func(a, b pod) int { return cmp.Compare(a.host, b.host) })
	}
	if len(e.IPs) > 0 {
		l.own = mesh.AppendName(nil, in.service.Host, e)
	}
	l.hash = xxhash.Sum64(l.own)
	for _, p := range l.pods {
		l.hash = l.hash*31 + xxhash.Sum64(p.line)
	}
	return l
}

// virtualIPs returns the service's addresses in their order. Address ranges, which cannot be an
// answer, other invalid texts and unspecified addresses are left out. For services of
// filtersByFamily, only families of the callers are included.
func (in input) virtualIPs() []string {
	var list []string
	for _, text := range in.service.Addresses {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.IsUnspecified() {
			continue
		}
		if !filtersByFamily(in.service) || ip.Is4() && in.ipv4 || ip.Is6() && in.ipv6 {
			list = append(list, text)
		}
	}
	return list
}

// endpointIPs returns the addresses of the endpoints that callers reach directly (addressesOf), as
// cluster DNS does: all, and by the endpoints' hostnames. Both are sorted without duplicates. With
// in.clusterOnly, all has only addresses in the callers' cluster or an unknown one. A hostname
// always has only such addresses, unless there are none.
func (in input) endpointIPs() (all []string, named map[string][]string) {
	named = map[string][]string{}
	remote := map[string][]string{}
	for _, e := range in.endpoints.Endpoints {
		ips, ok := in.addressesOf(e)
		if !ok {
			continue
		}
		local := matches(e.Cluster, in.cluster)
		if local || !in.clusterOnly {
			all = append(all, ips...)
		}
		switch {
		case e.Hostname == "":
		case local:
			named[e.Hostname] = append(named[e.Hostname], ips...)
		default:
			remote[e.Hostname] = append(remote[e.Hostname], ips...)
		}
	}
	for name, ips := range remote {
		if named[name] == nil {
			named[name] = ips
		}
	}
	for name, ips := range named {
		named[name] = sortUnique(ips)
	}
	return sortUnique(all), named
}

// addressesOf returns all addresses of an endpoint. ok is false if one of them is not an IP, or if
// the endpoint is not healthy, unless the service publishes unready addresses. It is also false on
// another network: the address is unreachable, and a gateway cannot replace it because calls are
// forwarded to their original destination.
func (in input) addressesOf(e *mesh.Endpoint) (ips []string, ok bool) {
	if e.Health != mesh.Healthy && !in.service.PublishNotReady || !matches(e.Network, in.network) {
		return nil, false
	}
	ips = append([]string{e.Address}, e.MoreAddresses...)
	for _, ip := range ips {
		if _, err := netip.ParseAddr(ip); err != nil {
			return nil, false
		}
	}
	return ips, true
}

// matches reports whether two names are equal or one of them is unknown (""). Case matters.
func matches[T ~string](a, b T) bool { return a == b || a == "" || b == "" }

// sortUnique sorts ips in place and returns it without duplicates: an endpoint occurs once for each
// port of its service.
func sortUnique(ips []string) []string {
	slices.Sort(ips)
	return slices.Compact(ips)
}
