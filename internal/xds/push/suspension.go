package push

import (
	"github.com/meshpilot/meshpilot/internal/api"
	"github.com/meshpilot/meshpilot/internal/config"
	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/view"
)

// An EnvoyFilter that makes a proxy refuse a resource is not applied any more to the proxies of that type and namespace, until
// the object changes: so the resource goes on without it, whatever else changes in it.

// suspension names an EnvoyFilter, as it was when it was found to do harm, and for whom.
type suspension struct {
	proxies   mesh.ProxyType
	namespace string
	filter    config.Key
	hash      uint64
}

// permitted gives a proxy's Key without the EnvoyFilters that are suspended for it. Pusher.mu is held.
func (p *Pusher) permitted(k view.Key) view.Key {
	for x := range p.suspended {
		if x.proxies == k.Type && x.namespace == k.Namespace && p.stands(x) {
			k.Patches = k.Patches.Without(x.filter)
		}
	}
	return k
}

// stands says whether the EnvoyFilter is still as it was. Pusher.mu is held.
func (p *Pusher) stands(x suspension) bool {
	c := p.snapshot.Config(x.filter)
	return c != nil && c.Hash == x.hash
}

// suspend takes the EnvoyFilters out of use that shaped what a client of the class refused, and says whether there are any.
// Pusher.mu is held.
func (p *Pusher) suspend(cl *class, n Nack, r Refused) bool {
	found := false
	for _, k := range r.From {
		c := p.snapshot.Config(k)
		if k.Kind != api.EnvoyFilter || c == nil || !cl.key.Patches.Has(k) {
			continue
		}
		found = true
		x := suspension{cl.key.Type, cl.key.Namespace, k, c.Hash}
		if _, known := p.suspended[x]; known {
			continue
		}
		p.suspended[x] = Quarantined{
			TypeURL: n.TypeURL, Name: r.Name, Version: r.Version, Scope: view.Key{Type: x.proxies, Namespace: x.namespace},
			Message: n.Of(r.Name), Since: n.Time, Replaced: true, From: []config.Key{k},
		}
		p.log.Warn("suspended: "+k.String(), "proxies", x.proxies, "namespace", x.namespace, "resource", r.Name, "message", n.Of(r.Name))
	}
	return found
}

// resettle moves the proxies of a type and namespace to the classes that they are of now. Pusher.mu is held.
func (p *Pusher) resettle(proxies mesh.ProxyType, namespace string) {
	for c := range p.clients {
		if c.proxy.Type == proxies && c.proxy.Namespace == namespace {
			p.place(c, p.eased(c, p.snapshot, view.KeyFor(p.snapshot, c.proxy)))
		}
	}
}

// forgive forgets suspensions of EnvoyFilters that have changed since. Pusher.mu is held.
func (p *Pusher) forgive() {
	before := len(p.suspended)
	for x := range p.suspended {
		if !p.stands(x) {
			delete(p.suspended, x)
		}
	}
	if len(p.suspended) != before {
		p.countQuarantined()
	}
}
