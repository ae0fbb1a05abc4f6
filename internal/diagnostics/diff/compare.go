package diff

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Input are two states of a mesh and the proxies to compare.
type Input struct {
	Before, After *snapshot.Snapshot
	// Proxies exist before and after.
	Proxies []*mesh.Proxy
	// Generators are the generators of translate.Table.
	Generators []view.Generator
	// Problems returns the Problems of a snapshot. If nil, only the ones that it contains itself
	// are compared.
	Problems func(*snapshot.Snapshot) []config.Problem
	// Conflicts returns the Problems of one View (translate.Table). If nil, they are not compared.
	Conflicts func(*view.View) []config.Problem
	// MaxDifferences limits the resources that are described. If there are more, the others are
	// only counted (Group.OmittedChanges). If 0, there is no limit.
	MaxDifferences int
	// Stop ends the comparison with the error that it returns, if it is set. It is called once per
	// proxy.
	Stop func() error
}

// Compare returns the effect of the change from in.Before to in.After. It fails only with the error
// of in.Stop, if that is set. Groups of proxies with equal differences are sorted, and their names
// too.
func Compare(in Input) (*Report, error) {
	references := newReferenceCache()
	c := &comparison{
		Input:  in,
		before: newTranslation(in.Before, in.Generators, references),
		after:  newTranslation(in.After, in.Generators, references),
		pairs:  map[classPair]string{}, differing: map[closurePair][]resourceName{},
		groups: map[string]*group{},
	}
	r := &Report{Proxies: len(in.Proxies)}
	for _, p := range in.Proxies {
		if in.Stop != nil {
			if err := in.Stop(); err != nil {
				return nil, err
			}
		}
		c.addProxy(p)
	}
	for _, id := range sortedKeys(c.groups) {
		if in.Stop != nil {
			if err := in.Stop(); err != nil {
				return nil, err
			}
		}
		g := c.groups[id]
		slices.Sort(g.names)
		r.Changed += len(g.names)
		r.Groups = append(r.Groups, c.describeGroup(g))
	}
	sortGroups(r.Groups)
	c.addProblems(r)
	return r, nil
}

// comparison is the state of Compare.
type comparison struct {
	Input
	before, after *translation
	// pairs maps the classes of a proxy before and after to the group of its changes, "" if there
	// are none.
	pairs  map[classPair]string
	groups map[string]*group
	// differing are the names of resources that differ, by the closures before and after.
	differing map[closurePair][]resourceName
	// emptied is the sum of translation.emptied when differing was emptied last.
	emptied int
	// kept is the number of differences in groups, followed that of groups whose calls are
	// compared.
	kept, followed int
}

// classPair are the classes of a proxy before and after.
type classPair struct{ before, after view.Key }

// group are the proxies with the same differences.
type group struct {
	names       []string
	proxy       *mesh.Proxy // the first of them
	differences []difference
	omitted     int // differences that are only counted
}

// difference is a resource that differs; before or after is nil if it is added or removed.
type difference struct{ before, after *resource.Resource }

// addProxy adds a proxy to the group of proxies with equal differences. It does nothing if the
// proxy has none.
func (c *comparison) addProxy(p *mesh.Proxy) {
	pair := classPair{c.before.keyOf(p), c.after.keyOf(p)}
	id, known := c.pairs[pair]
	if !known {
		differences := c.compareClasses(pair)
		id = groupID(p, differences)
		c.pairs[pair] = id
		if id != "" && c.groups[id] == nil {
			c.groups[id] = c.newGroup(p, differences)
		}
	}
	if id != "" {
		c.groups[id].names = append(c.groups[id].names, debug.DisplayName(p))
	}
}

// newGroup returns a group with the differences of p, and adds their number to c.kept. Differences
// beyond MaxDifferences, which all groups share, are counted in omitted. A MaxDifferences of 0 or
// less is no limit.
func (c *comparison) newGroup(p *mesh.Proxy, differences []difference) *group {
	g := &group{proxy: p, differences: differences}
	if room := c.MaxDifferences - c.kept; c.MaxDifferences > 0 && len(differences) > room {
		g.differences, g.omitted = slices.Clone(differences[:max(room, 0)]), len(differences)-max(room, 0)
	}
	c.kept += len(g.differences)
	return g
}

// groupID returns a hash, as raw bytes, of the proxy's type and a list of differences in their
// order, or "" if the list is empty.
func groupID(p *mesh.Proxy, list []difference) string {
	if len(list) == 0 {
		return ""
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s", p.Type)
	for _, d := range list {
		for _, r := range []*resource.Resource{d.before, d.after} {
			if r == nil {
				fmt.Fprint(h, "|")
			} else {
				fmt.Fprintf(h, "|%s %q %s", r.TypeURL, r.Name, r.Version)
			}
		}
	}
	return string(h.Sum(nil))
}

// pushOrder returns the resource types in the order in which they are sent. They are clusters,
// endpoints, extensions, listeners, routes and secrets.
func pushOrder() []string {
	return []string{
		api.ClusterType, api.EndpointType, api.ExtensionType, api.ListenerType, api.RouteType, api.SecretType,
	}
}

// sortDifferences sorts differences in push order and by name.
func sortDifferences(list []difference) {
	order := pushOrder()
	slices.SortFunc(list, func(x, y difference) int {
		a, b := x.either(), y.either()
		return cmp.Or(
			cmp.Compare(slices.Index(order, a.TypeURL), slices.Index(order, b.TypeURL)),
			cmp.Compare(a.Name, b.Name),
		)
	})
}

// either returns the resource after the change, or the one before it if it is removed.
func (d difference) either() *resource.Resource {
	if d.after != nil {
		return d.after
	}
	return d.before
}

// operation returns whether the resource is Added, Removed or Changed.
func (d difference) operation() Operation {
	switch {
	case d.before == nil:
		return Added
	case d.after == nil:
		return Removed
	default:
		return Changed
	}
}

// describeGroup returns the report of a group: its changes with at most maxFields fields each, its
// drains, and for the first maxCallGroups groups its calls.
func (c *comparison) describeGroup(g *group) Group {
	out := Group{Proxies: g.names, OmittedChanges: g.omitted}
	for _, d := range g.differences {
		r := d.either()
		change := Change{
			Type: api.ShortType(r.TypeURL), Name: r.Name, Operation: d.operation(), Objects: c.changedObjects(d),
		}
		if change.Operation == Changed {
			change.Fields = changedFields(d)
			if n := len(change.Fields); n > maxFields {
				change.Fields, change.OmittedFields = change.Fields[:maxFields], n-maxFields
			}
		}
		out.Changes = append(out.Changes, change)
		out.Drains = append(out.Drains, drainsOf(d)...)
	}
	if c.followed < maxCallGroups {
		c.followed++
		out.Calls = c.changedCalls(g)
	}
	return out
}

// changedFields returns the fields of a changed resource that differ. For a Secret, which is never
// decoded, and for a resource that cannot be decoded, it returns the versions.
func changedFields(d difference) []FieldChange {
	if d.after.TypeURL == api.SecretType {
		return []FieldChange{{Path: "secret", Before: "version " + d.before.Version,
			After: "version " + d.after.Version}}
	}
	before, after := decodeBody(d.before), decodeBody(d.after)
	if before == nil || after == nil {
		return []FieldChange{{Path: "version", Before: d.before.Version, After: d.after.Version}}
	}
	return diffMessages(before.ProtoReflect(), after.ProtoReflect())
}

// changedObjects returns the objects that the resource is generated from and that the snapshots
// have in different versions, as KIND/NAMESPACE/NAME, sorted.
func (c *comparison) changedObjects(d difference) []string {
	var keys []config.Key
	for _, r := range []*resource.Resource{d.before, d.after} {
		if r != nil {
			keys = append(keys, r.From...)
		}
	}
	slices.SortFunc(keys, config.Key.Compare)
	var list []string
	for _, k := range slices.Compact(keys) {
		before, after := c.Before.Config(k), c.After.Config(k)
		if (before == nil) != (after == nil) || before != nil && before.Hash != after.Hash {
			list = append(list, k.String())
		}
	}
	return list
}

// addProblems sets the new and the resolved Problems of r, which only one of the snapshots has.
func (c *comparison) addProblems(r *Report) {
	before, after := c.problemsOf(c.before), c.problemsOf(c.after)
	r.NewProblems, r.ResolvedProblems = missingIn(before, after), missingIn(after, before)
}

// problemsOf returns all Problems of a snapshot and of the compared classes, without their
// positions. They include the results of c.Problems and c.Conflicts, if set.
func (c *comparison) problemsOf(t *translation) map[debug.Problem]bool {
	list := slices.Clone(t.snapshot.Problems())
	if c.Problems != nil {
		list = append(list, c.Problems(t.snapshot)...)
	}
	if c.Conflicts != nil {
		for k := range t.classes {
			list = append(list, c.Conflicts(t.viewOf(k))...)
		}
	}
	set := map[debug.Problem]bool{}
	for _, p := range list {
		x := debug.NewProblem(p)
		x.Origin = "" // positions of unchanged objects move with their files
		set[x] = true
	}
	return set
}

// missingIn returns the elements of list that known does not have, sorted.
func missingIn(known, list map[debug.Problem]bool) []debug.Problem {
	var out []debug.Problem
	for p := range list {
		if !known[p] {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b debug.Problem) int { return cmp.Compare(a.String(), b.String()) })
	return out
}
