package push

import (
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/rollout"
)

// Reach is the number of proxies that an object has reached.
type Reach struct {
	// Proxies is the number of proxies that are served a resource generated from the object.
	// Acknowledged is the number of these proxies that have acknowledged all such resources.
	Proxies, Acknowledged int
}

// Distribution is the reach of several objects.
type Distribution struct {
	// Snapshot is the version of the newest snapshot that all classes were updated to.
	Snapshot uint64
	// Reach has an entry for each object from which a served resource is generated.
	Reach map[config.Key]Reach
}

// Distribution returns, for each object, how many proxies get resources generated from it and how
// many have acknowledged these. It also returns the number of the pushed snapshot. An object
// without such resources has no entry. It waits for the rollout and reads every served resource and
// every proxy's state. So it should be called rarely and with few objects; without objects it reads
// nothing.
func (x Reports) Distribution(objects map[config.Key]struct{}) Distribution {
	d := Distribution{Snapshot: x.pusher.counts.snapshot.Load(), Reach: map[config.Key]Reach{}}
	if len(objects) == 0 {
		return d
	}
	var members []rollout.Members
	x.pusher.queryRollout(func(r *rollout.Rollout) { members, d.Snapshot = r.Members(), x.pusher.counts.snapshot.Load() })
	found := map[*resource.Set]generatedFrom{}
	for _, m := range members {
		resources := generatedFrom{}
		for _, set := range m.Sets {
			s, known := found[set]
			if !known {
				s = findGenerated(set, objects)
				found[set] = s
			}
			for k, list := range s {
				resources[k] = append(resources[k], list...)
			}
		}
		if len(resources) > 0 {
			x.pusher.clients.addReach(m, resources, d.Reach)
		}
	}
	return d
}

// generatedFrom maps an object to the resources that were generated from it.
type generatedFrom map[config.Key][]*resource.Resource

// findGenerated returns the resources of a set that were generated from any of the objects, by
// object. A resource of several objects is in the list of each. Objects without resources have no
// entry.
func findGenerated(set *resource.Set, objects map[config.Key]struct{}) generatedFrom {
	found := generatedFrom{}
	for r := range set.All() {
		for _, k := range r.From {
			if _, asked := objects[k]; asked {
				found[k] = append(found[k], r)
			}
		}
	}
	return found
}

// addReach adds the open streams of class m to the Reach in to of each object in resources. A proxy
// is Acknowledged if it has acknowledged the class's whole ResourceSnapshot, or all resources of
// the object that it subscribes to (if any). Each object gets an entry, also if no stream is open.
func (t *clientTable) addReach(m rollout.Members, resources generatedFrom, to map[config.Key]Reach) {
	complete := 0 // proxies that have acknowledged everything
	var behind []*Client
	for _, handle := range m.Clients {
		switch c := t.get(handle); {
		case c == nil: // the stream has ended
		case c.hasResources(m.Resources):
			complete++
		default:
			behind = append(behind, c)
		}
	}
	for k, list := range resources {
		r := to[k]
		r.Proxies += complete + len(behind)
		r.Acknowledged += complete
		for _, c := range behind {
			if c.hasAll(list) {
				r.Acknowledged++
			}
		}
		to[k] = r
	}
}
