package consul

import (
	"cmp"
	"context"
	"fmt"

	"github.com/hashicorp/consul/api"
)

// part is the part of Consul's catalogs that a Source reads. At most one field is set. If none is,
// it is the datacenter of the settings.
type part struct {
	datacenter string // one of Settings.OtherDatacenters
	peer       string // one of Settings.Peers
}

// parts returns the parts of the catalog to read: first the datacenter of the settings (an empty
// part), then the other datacenters and the peers.
func (s Settings) parts() []part {
	list := []part{{}}
	for _, dc := range s.OtherDatacenters {
		list = append(list, part{datacenter: dc})
	}
	for _, peer := range s.Peers {
		list = append(list, part{peer: peer})
	}
	return list
}

// NewAll returns a Source for the datacenter of the settings, and one for each of OtherDatacenters
// and Peers, in this order. Each has an equal share of Settings.Queries, at least 1. It returns an
// error as New does.
func NewAll(o Options) ([]*Source, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	parts := o.parts()
	o.Queries, o.OtherDatacenters, o.Peers = max(1, o.Queries/len(parts)), nil, nil
	var list []*Source
	for _, p := range parts {
		of := o
		of.Datacenter = cmp.Or(p.datacenter, o.Datacenter)
		s, err := New(of)
		if err != nil {
			return nil, err
		}
		s.part = p
		list = append(list, s)
	}
	return list, nil
}

// String returns "west" for a datacenter and "west.peer" for a peer, or "" for the datacenter of
// the settings.
func (p part) String() string {
	if p.peer != "" {
		return p.peer + ".peer"
	}
	return p.datacenter
}

// subject returns the subject of a Problem about the whole part: "the peer", or "Consul" for a
// datacenter.
func (p part) subject() string {
	if p.peer != "" {
		return "the peer"
	}
	return "Consul"
}

// objectName returns the name of the object of a service: "web", or "west/web" in another
// datacenter. For a peer, p.String() has the suffix .peer.
func (p part) objectName(service string) string {
	if p == (part{}) {
		return service
	}
	return p.String() + "/" + service
}

// readPeering reads the names of the services that the peer exports, as the servers' leader last
// received them, into r.services. It returns an error without a peering of this name, and one with
// the state of the peering unless that is active. In the latter case r.services has the names too
// if any are known.
func (w watcher) readPeering(ctx context.Context, r *result, o *api.QueryOptions) (*api.QueryMeta, error) {
	p, meta, err := w.client.Peerings().Read(ctx, w.part.peer, o)
	if err != nil {
		return meta, err
	}
	if p == nil {
		return meta, fmt.Errorf("there is no peering %q", w.part.peer)
	}
	active := p.State == api.PeeringStateActive
	if imported := p.StreamStatus.ImportedServices; active || len(imported) > 0 {
		r.services = make(map[string][]string, len(imported))
		for _, name := range imported {
			r.services[name] = nil
		}
	}
	if !active {
		return meta, fmt.Errorf("the peering is %s", p.State)
	}
	return meta, nil
}
