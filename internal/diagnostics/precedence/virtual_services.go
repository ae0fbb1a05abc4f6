package precedence

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// ruleList is a list of VirtualServices with HTTP routes that compete, in the order of precedence.
type ruleList struct {
	rules []*snapshot.VirtualService
	// merges is set if the routes of all VirtualServices of a host are merged, as gateways do.
	merges bool
}

// ruleLists returns the VirtualServices with HTTP routes that the View sees: a list for each egress
// listener of a sidecar, or for each Gateway of a router. Only the latter are merged.
func ruleLists(v *view.View) []ruleList {
	var lists []ruleList
	add := func(all []*snapshot.VirtualService, merges bool) {
		var l []*snapshot.VirtualService
		for _, vs := range all {
			if len(vs.Spec.GetHttp()) > 0 {
				l = append(l, vs)
			}
		}
		lists = append(lists, ruleList{l, merges})
	}
	g := v.Gateway()
	if g == nil {
		for _, e := range v.Egress {
			add(e.VirtualServices, false)
		}
		return lists
	}
	for _, c := range v.Snapshot.Gateways(v.Key.Gateways) {
		add(v.VirtualServicesOf(c.Namespace+"/"+c.Name), true)
	}
	return lists
}

// virtualServiceRelations compares the object k, or what was converted from it, with others that
// have HTTP routes for the same host. Objects of one VirtualService (its delegates and its source)
// are not compared, but related by delegateRelations. There are duplicates if several lists have
// the objects (ruleLists).
func virtualServiceRelations(v *view.View, k config.Key) []Relation {
	var found []Relation
	for _, l := range ruleLists(v) {
		for i, own := range l.rules {
			if !slices.Contains(sources(own), k) {
				continue
			}
			found = append(found, delegateRelations(own, k)...)
			for j, other := range l.rules {
				if i != j && !slices.Contains(sources(other), k) {
					found = append(found, l.compare(own, other, i < j)...)
				}
			}
		}
	}
	return found
}

// sources returns the keys of the VirtualService and its delegates, preceded by that of the object
// that it was converted from, if any.
func sources(vs *snapshot.VirtualService) []config.Key {
	if vs.Config.Extension != nil && vs.Config.Extension.Source != (config.Key{}) {
		return append([]config.Key{vs.Config.Extension.Source}, vs.From...)
	}
	return vs.From
}

// source returns the key of the object that vs was converted from, or else its own key.
func source(vs *snapshot.VirtualService) config.Key {
	if vs.Config.Extension != nil && vs.Config.Extension.Source != (config.Key{}) {
		return vs.Config.Extension.Source
	}
	return vs.Config.Key
}

// delegateRelations returns a relation to each delegate if k is the source of vs. Otherwise k is a
// delegate, and it returns the relation to the source.
func delegateRelations(vs *snapshot.VirtualService, k config.Key) []Relation {
	if k != source(vs) {
		return []Relation{{Effect: DelegatedBy, Object: source(vs)}}
	}
	var list []Relation
	for _, d := range vs.From {
		if d != vs.Config.Key && d != k {
			list = append(list, Relation{Effect: Delegates, Object: d})
		}
	}
	return list
}

// compare returns the relations of own to other: one for each of their hosts that both cover. first
// reports whether own is before other in the list. The longer covering host prevails, then the
// Gateway API, then the first one. For equal hosts, routes of the Gateway API are combined, and if
// l.merges, other routes are merged.
func (l ruleList) compare(own, other *snapshot.VirtualService, first bool) []Relation {
	var list []Relation
	var seen []mesh.Hostname
	for _, h := range slices.Concat(own.Hosts, other.Hosts) {
		a, b := matchingHost(own, h), matchingHost(other, h)
		if a == "" || b == "" || slices.Contains(seen, h) {
			continue
		}
		seen = append(seen, h)
		r := Relation{Effect: Prevails, Object: source(other), Host: h}
		winner, loser := own, other
		switch {
		case a != b && len(b) > len(a), a == b && isPreceded(own, other, first):
			winner, loser = other, own
			r.Effect = Loses
		}
		r.Reason = precedenceReason(winner, loser, h)
		switch {
		case a == b && precedes(own) && precedes(other) && own.IsPrivate() == other.IsPrivate():
			r.Effect, r.Reason = Combined, "the more specific match precedes, then the older route"
		case a == b && l.merges:
			r.Effect, r.Reason = mergeEffect(r.Effect), "the routes of the first one are matched first"
		}
		list = append(list, r)
	}
	return list
}

// isPreceded reports whether other precedes own for a host that both have equally: it is of the
// Gateway API and own is not, or they are alike and first is false.
func isPreceded(own, other *snapshot.VirtualService, first bool) bool {
	if precedes(own) != precedes(other) {
		return precedes(other)
	}
	return !first
}

// precedes reports whether a VirtualService was converted from a route that precedes users'
// VirtualServices.
func precedes(vs *snapshot.VirtualService) bool {
	return vs.Config.Extension != nil && vs.Config.Extension.Precedes
}

// mergeEffect returns MergedAfter for Loses and MergedFirst for all other effects, because both
// objects are used.
func mergeEffect(e Effect) Effect {
	if e == Loses {
		return MergedAfter
	}
	return MergedFirst
}

// matchingHost returns the most specific host of a VirtualService that covers a host; "" if none
// does. Equal lengths select the first one.
func matchingHost(vs *snapshot.VirtualService, host mesh.Hostname) (best mesh.Hostname) {
	for _, h := range vs.Hosts {
		if h == host {
			return h
		}
		if h.Covers(host) && len(h) > len(best) {
			best = h
		}
	}
	return best
}

// precedenceReason returns the reason why winner precedes loser for host. It does not check that it
// does. The comparisons are, in order: Gateway API, more specific host, ExportRank, age
// and name.
func precedenceReason(winner, loser *snapshot.VirtualService, host mesh.Hostname) string {
	switch {
	case precedes(winner) && !precedes(loser):
		return "routes of the Gateway API precede VirtualServices"
	case matchingHost(winner, host) != matchingHost(loser, host):
		return "its host " + string(matchingHost(winner, host)) + " is more specific"
	case winner.ExportRank() != loser.ExportRank() && winner.IsPrivate():
		return "it is exported only to its own namespace"
	case winner.ExportRank() != loser.ExportRank():
		return "it is exported to namespaces by name, the other one to all"
	default:
		return "it is older, or of equal age and the first by name"
	}
}
