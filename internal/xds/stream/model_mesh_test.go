package stream

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// modelMesh is the desired state: bodies by type and name. A body is "version:references": of
// listeners to routes (r…), extensions (x…) and clusters (c…), of routes and extensions to
// clusters. The client refuses a body that contains "bad". A cluster with "hang" in it does not
// become warm for long.
type modelMesh struct {
	bodies    [typeCount]map[string]string
	asked     [typeCount]map[string]bool // by this client and other clients of its class
	tick      int
	resources *ResourceSnapshot
	// onDemand is set if clients fetch clusters (c…) on demand. Those of listeners are pinned.
	onDemand bool
}

func newModelMesh() *modelMesh {
	h := &modelMesh{}
	for i := range h.bodies {
		h.bodies[i], h.asked[i] = map[string]string{}, map[string]bool{}
	}
	return h
}

// change makes a few edits, and then makes the mesh consistent: no reference is dangling. Routes
// are never deleted in SotW, which cannot express that.
func (h *modelMesh) change(t *rapid.T, mode Mode) {
	for range rapid.IntRange(1, 4).Draw(t, "edits") {
		h.tick++
		h.edit(t, mode)
	}
	for _, at := range []int{ecds, rds, lds} {
		for name := range h.bodies[at] {
			h.mend(at, name)
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "others") == 0 {
		h.asked[eds][pickName(t, "c", 6)] = true
		h.asked[rds][pickName(t, "r", 4)] = true
	}
	if rapid.IntRange(0, 9).Draw(t, "forgotten") == 0 { // a name is not looked up any more, although a client may want it
		delete(h.asked[eds], pickName(t, "c", 6))
		delete(h.asked[rds], pickName(t, "r", 4))
		delete(h.asked[ecds], pickName(t, "x", 2))
	}
}

func (h *modelMesh) edit(t *rapid.T, mode Mode) {
	v := fmt.Sprint(h.tick)
	if rapid.IntRange(0, 19).Draw(t, "bad") == 0 {
		v += "bad"
	}
	gone := rapid.IntRange(0, 3).Draw(t, "gone") == 0
	switch rapid.IntRange(0, 7).Draw(t, "edit") {
	case 0, 1, 2:
		if rapid.IntRange(0, 9).Draw(t, "hang") == 0 {
			v += "hang"
		}
		h.set(cds, pickName(t, "c", 6), v, gone)
	case 3:
		h.set(eds, pickName(t, "c", 6), fmt.Sprint(h.tick), false)
	case 4:
		list := slices.Concat(someNames(t, "r", 4), someNames(t, "x", 2), someNames(t, "c", 2))
		h.set(lds, pickName(t, "l", 3), v+":"+strings.Join(list, ","), gone)
	case 5:
		h.set(rds, pickName(t, "r", 4), v+":"+strings.Join(someNames(t, "c", 6), ","), gone && mode == Delta)
	case 6:
		h.set(ecds, pickName(t, "x", 2), v+":"+strings.Join(someNames(t, "c", 6), ","), gone)
	case 7:
		h.set(nds, "names", v, gone)
	}
}

func (h *modelMesh) set(at int, name, body string, gone bool) {
	if gone {
		delete(h.bodies[at], name)
	} else {
		h.bodies[at][name] = body
	}
}

// mend removes dangling references from a body. A route may be missing.
func (h *modelMesh) mend(at int, name string) {
	head, list, _ := strings.Cut(h.bodies[at][name], ":")
	kept := slices.DeleteFunc(strings.Split(list, ","), func(n string) bool {
		return strings.HasPrefix(n, "c") && h.bodies[cds][n] == "" ||
			strings.HasPrefix(n, "x") && h.bodies[ecds][n] == ""
	})
	if strings.Join(kept, ",") != list {
		h.bodies[at][name] = fmt.Sprintf("%s.%d:%s", head, h.tick, strings.Join(kept, ","))
	}
}

func pickName(t *rapid.T, prefix string, n int) string {
	return fmt.Sprint(prefix, rapid.IntRange(0, n-1).Draw(t, prefix))
}

func someNames(t *rapid.T, prefix string, n int) []string {
	bits := rapid.IntRange(0, 1<<n-1).Draw(t, prefix)
	var list []string
	for i := range n {
		if bits>>i&1 == 1 {
			list = append(list, fmt.Sprint(prefix, i))
		}
	}
	return list
}

// publish returns a ResourceSnapshot of the mesh: clusters on two ResourceGroups, and endpoints, for all
// clusters and for every name asked for, on two ResourceGroups beside an empty one.
func (h *modelMesh) publish() *ResourceSnapshot {
	for c := range h.bodies[cds] {
		h.asked[eds][c] = true
	}
	endpoints := map[string]string{}
	for c := range h.asked[eds] {
		endpoints[c] = "empty"
		if h.bodies[cds][c] != "" {
			endpoints[c] = "e" + h.bodies[eds][c]
		}
	}
	low, high := splitNames(h.bodies[cds])
	low["static"] = "0"
	lowEndpoints, highEndpoints := splitNames(endpoints)
	contents := Contents{
		Groups: map[string][]*ResourceGroup{
			pushOrder[cds].URL:  {h.group(cds, 0, low), h.group(cds, 1, high)},
			pushOrder[eds].URL:  {h.group(eds, 0, lowEndpoints), h.group(eds, 1, highEndpoints), h.group(eds, 2, nil)},
			pushOrder[ecds].URL: {h.group(ecds, 0, h.lookedUp(ecds))},
			pushOrder[lds].URL:  {h.group(lds, 0, h.bodies[lds])},
			pushOrder[rds].URL:  {h.group(rds, 0, h.lookedUp(rds))},
			pushOrder[nds].URL:  {h.group(nds, 0, h.bodies[nds])},
		},
		EndpointsOf: ownEndpoints,
		ClustersOf:  func(r *resource.Resource) []string { return prefixed("c", refs(r)) },
	}
	if h.onDemand {
		contents.FetchedOnDemand = func(name string) bool { return strings.HasPrefix(name, "c") }
		contents.EmptyCluster = func(name string) *resource.Resource {
			return resource.FromBytes(name, pushOrder[cds].URL, []byte(absentCluster))
		}
		contents.PinnedBy = pinnedBy
	}
	h.resources = BuildResourceSnapshot(contents)
	return h.resources
}

// setList returns the SetList of a type in the newest ResourceSnapshot, an empty one if there is none.
func (h *modelMesh) setList(typeURL string) *SetList {
	if at := envoyTypes.positionOf(typeURL); at >= 0 && h.resources != nil {
		return h.resources.lists[at].sets
	}
	return newSetList(nil)
}

// splitNames returns the bodies of names before c3, and of the others.
func splitNames(bodies map[string]string) (low, high map[string]string) {
	low, high = map[string]string{}, map[string]string{}
	for name, body := range bodies {
		if name < "c3" {
			low[name] = body
		} else {
			high[name] = body
		}
	}
	return low, high
}

func (h *modelMesh) lookedUp(at int) map[string]string {
	bodies := maps.Clone(h.bodies[at])
	maps.DeleteFunc(bodies, func(n, _ string) bool { return !h.asked[at][n] })
	return bodies
}

// group returns the previous ResourceGroup if it is unchanged, else a new one.
func (h *modelMesh) group(at, i int, bodies map[string]string) *ResourceGroup {
	var list []*resource.Resource
	for name, body := range bodies {
		r := resource.FromBytes(name, pushOrder[at].URL, []byte(body))
		r.Placeholder = body == "empty"
		list = append(list, r)
	}
	set, err := resource.NewSet(list)
	if err != nil {
		panic(err)
	}
	if !pushOrder[at].Wildcard {
		return NewNamedResourceGroup(set, names(h.asked[at]))
	}
	if h.resources != nil && h.resources.lists[at].groups[i].set.Version() == set.Version() {
		return h.resources.lists[at].groups[i]
	}
	return NewResourceGroup(set)
}

// prefixed returns the names with the prefix.
func prefixed(prefix string, list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(n string) bool { return !strings.HasPrefix(n, prefix) })
}

func names(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
