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

// input is all that the lines of one service depend on. What makes no difference to them is left zero, so that as many
// Views as can be share them.
type input struct {
	service *mesh.Service
	// ipv4 and ipv6 are the families of the callers, for cluster IPs and addresses that were allocated.
	ipv4, ipv6 bool
	// endpoints, network and cluster are for services without an address of their own.
	endpoints *snapshot.EndpointSet
	network   mesh.Network
	cluster   mesh.ClusterID
}

// inputFor gives the input of a service's lines; ok is false for one that has none, whatever its endpoints: DNS goes on to
// the resolvers that the application would ask without us. That is so for a Service of type ExternalName, which is a CNAME
// there, and for a ServiceEntry that has no addresses, and was not given any that the callers know.
func inputFor(v *view.View, svc *mesh.Service) (in input, ok bool) {
	switch {
	case svc.Resolution == mesh.Alias:
		return input{}, false
	case len(svc.Addresses) > 0:
		in = input{service: svc}
		if byFamily(svc) {
			in.ipv4, in.ipv6 = v.Key.IPv4, v.Key.IPv6
		}
		return in, true
	case svc.Resolution == mesh.Passthrough:
		return input{service: svc, endpoints: v.Endpoints(svc), network: v.Key.Network, cluster: v.Key.Cluster}, true
	default:
		return input{}, false
	}
}

// byFamily says that callers are told only those addresses of a service that are of a family which they have. What a
// ServiceEntry names they are told in any case, for a proxy takes them by what they stand for.
func byFamily(svc *mesh.Service) bool {
	return svc.Provider == mesh.Kubernetes || len(svc.Allocated) > 0
}

// lines are what the table has of one service, encoded.
type lines struct {
	in input
	// own is the line of the service's host, nil if it has no address.
	own []byte
	// pods are the lines of endpoints with names of their own, sorted by host.
	pods []pod
	// hash is of own and pods, to look for equal tables by.
	hash uint64
}

type pod struct {
	host mesh.Hostname
	line []byte
}

func linesOf(in input) *lines {
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
				IPs: ips, Registry: in.service.Provider, ShortName: name + "." + in.service.Name, Namespace: in.service.Namespace,
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

// virtualIPs gives the service's addresses in their order, without ranges, which no answer can name.
func (in input) virtualIPs() []string {
	var list []string
	for _, text := range in.service.Addresses {
		ip, err := netip.ParseAddr(text)
		if err != nil || ip.IsUnspecified() {
			continue
		}
		if !byFamily(in.service) || ip.Is4() && in.ipv4 || ip.Is6() && in.ipv6 {
			list = append(list, text)
		}
	}
	return list
}

// endpointIPs gives the addresses of the endpoints that callers can reach directly, as cluster DNS has them: all, and by
// the endpoints' own names. Names of the callers' own cluster go before equal ones of others.
func (in input) endpointIPs() (all []string, named map[string][]string) {
	named = map[string][]string{}
	remote := map[string][]string{}
	for _, e := range in.endpoints.Endpoints {
		ips, ok := in.reachable(e)
		if !ok {
			continue
		}
		all = append(all, ips...)
		switch {
		case e.Hostname == "":
		case same(e.Cluster, in.cluster):
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
		named[name] = distinct(ips)
	}
	return distinct(all), named
}

// reachable gives an endpoint's addresses; ok is false for one that is not ready, not an IP, or on another network: its
// address means nothing here, and a gateway cannot stand in, for the call is passed on to where it was going.
func (in input) reachable(e *mesh.Endpoint) (ips []string, ok bool) {
	if e.Health != mesh.Healthy && !in.service.PublishNotReady || !same(e.Network, in.network) {
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

// same says whether two names are equal, or one of them is not known.
func same[T ~string](a, b T) bool { return a == b || a == "" || b == "" }

// distinct sorts: an endpoint is there once for each port of its service.
func distinct(ips []string) []string {
	slices.Sort(ips)
	return slices.Compact(ips)
}
