package cluster

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// network contains the addresses on which a cluster's parts listen, and the addresses that it
// allocates. IPv4 is the first family, IPv6 the second if there is one.
type network struct {
	// nodes has the node's addresses; none in clusters without one, which live on loopback.
	nodes                         []netip.Addr
	pods, services, loadBalancers []netip.Prefix
}

// mostIndex is the last for which ranges are free: 10.(96+2n), 10.(97+2n) and 10.(244-n).
const mostIndex = 40

// networkOf returns the network of a cluster. Networks of different indices do not overlap.
func networkOf(o Options) (network, error) {
	if o.Index < 0 || o.Index > mostIndex {
		return network{}, fmt.Errorf("the index %d of a cluster is not between 0 and %d", o.Index, mostIndex)
	}
	services := netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", 96+2*o.Index))
	if o.Tier != Node {
		return network{services: []netip.Prefix{services}}, nil
	}
	pods := netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", 244-o.Index))
	n := network{
		pods: []netip.Prefix{pods}, nodes: []netip.Addr{pods.Addr().Next()}, services: []netip.Prefix{services},
		loadBalancers: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/24", 97+2*o.Index))},
	}
	if o.DualStack {
		pods := netip.MustParsePrefix(fmt.Sprintf("fd00:10:244:%x::/64", o.Index))
		n.pods, n.nodes = append(n.pods, pods), append(n.nodes, pods.Addr().Next())
		n.services = append(n.services, netip.MustParsePrefix(fmt.Sprintf("fd00:10:96:%x::/112", o.Index)))
		n.loadBalancers = append(n.loadBalancers, netip.MustParsePrefix(fmt.Sprintf("fd00:10:97:%x::/112", o.Index)))
	}
	return n, nil
}

// hasNode reports whether Pods run in the cluster.
func (n network) hasNode() bool { return len(n.nodes) > 0 }

// apiService is the address of the Service `kubernetes`, dns that of the cluster's name server.
func (n network) apiService() netip.Addr { return n.services[0].Addr().Next() }

func (n network) dnsAddress() netip.Addr {
	a := n.services[0].Addr().As4()
	a[3] = 10
	return netip.AddrFrom4(a)
}

// apiServerArgs returns flags for the API server's own and its advertised address.
func (n network) apiServerArgs() []string {
	if n.hasNode() {
		return []string{"--bind-address=0.0.0.0", "--advertise-address=" + n.nodes[0].String()}
	}
	// The Service `kubernetes` has no endpoint: loopback is not allowed, and would not be called.
	// The address is one for documentation (RFC 5737), so that none of this machine is looked for.
	return []string{"--bind-address=127.0.0.1", "--endpoint-reconciler-type=none", "--advertise-address=192.0.2.1"}
}

// certifiedAddresses are the addresses that the API server's certificate is for.
func (n network) certifiedAddresses() []string {
	all := []string{"127.0.0.1"}
	for _, p := range n.services {
		all = append(all, p.Addr().Next().String())
	}
	return append(all, toTexts(n.nodes)...)
}

func toTexts[T fmt.Stringer](list []T) []string {
	all := make([]string, 0, len(list))
	for _, one := range list {
		all = append(all, one.String())
	}
	return all
}

// ports are the ports that a cluster has reserved on its loopback.
type ports struct{ etcd, peer, api *port }

func reservePorts() (*ports, error) {
	p := &ports{}
	for _, place := range []**port{&p.etcd, &p.peer, &p.api} {
		var err error
		if *place, err = reservePort(netip.MustParseAddr("127.0.0.1")); err != nil {
			p.releaseAll()
			return nil, err
		}
	}
	return p, nil
}

func (p *ports) releaseAll() {
	for _, one := range []*port{p.etcd, p.peer, p.api} {
		if one != nil {
			one.releasePort()
		}
	}
}

// portAddress returns the address of the port on loopback.
func (p *port) portAddress() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(p.number)))
}
