package cluster

import (
	"net"
	"net/netip"
	"strconv"
)

// network says where a cluster's parts listen, and which addresses it gives out.
type network struct {
	// listen is what the API server binds to; local is where its clients outside the cluster find it.
	listen, local string
	services      string // CIDR of Services
}

// loopbackNetwork is that of a cluster without a node.
func loopbackNetwork() network {
	return network{listen: "127.0.0.1", local: "127.0.0.1", services: "10.96.0.0/16"}
}

// apiServerArgs are those by which others find the API server.
func (network) apiServerArgs(*keys) []string {
	// The Service `kubernetes` has no endpoint: loopback may not be one, and nobody would call it. The address is for
	// documentation (RFC 5737), so that none of this machine is looked for.
	return []string{"--endpoint-reconciler-type=none", "--advertise-address=192.0.2.1"}
}

// ports are those that a cluster has reserved on loopback.
type ports struct{ etcd, peer, api *port }

func reservePorts(addr netip.Addr) (*ports, error) {
	p := &ports{}
	for _, place := range []**port{&p.etcd, &p.peer, &p.api} {
		var err error
		if *place, err = reservePort(addr); err != nil {
			p.release()
			return nil, err
		}
	}
	return p, nil
}

func (p *ports) release() {
	for _, one := range []*port{p.etcd, p.peer, p.api} {
		if one != nil {
			one.release()
		}
	}
}

// loopback gives the address of one of the ports.
func (c *Cluster) loopback(p *port) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(p.number)))
}

// apiAddress is where the API server is found.
func (c *Cluster) apiAddress() string { return c.loopback(c.ports.api) }
