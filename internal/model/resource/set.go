package resource

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"weak"

	"github.com/cespare/xxhash/v2"
)

// Set is an immutable collection of resources of one type, sorted by name, each name once.
type Set struct {
	list []*Resource
	// sum is the sum of all members' hashes, so that a change of a few costs no look at the others.
	sum     uint64
	version string
	// origin is the set that With made this one of, if it is still there, and step the difference.
	origin weak.Pointer[Set]
	step   Diff
}

// NewSet makes a set of the resources, which may come in any order. A name that comes twice is a bug of the generator:
// the first one stays and the error names the others; the set is usable all the same.
func NewSet(list []*Resource) (*Set, error) {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b *Resource) int { return cmp.Compare(a.Name, b.Name) })
	var err error
	kept := sorted[:0]
	for _, r := range sorted {
		if len(kept) > 0 && kept[len(kept)-1].Name == r.Name {
			err = fmt.Errorf("%s %q is there twice", r.TypeURL, r.Name)
			continue
		}
		kept = append(kept, r)
	}
	var sum uint64
	for _, r := range kept {
		sum += Hash(r.Name, r.Version)
	}
	return sealed(kept, sum), err
}

func sealed(list []*Resource, sum uint64) *Set {
	return &Set{list: list, sum: sum, version: hex.EncodeToString(binary.BigEndian.AppendUint64(nil, sum))}
}

// Hash is of one resource's name and version. The sum of the hashes of several says what they are, in whatever order, as
// [Set.Sum] does: 64 bits, for comparing what nobody gains by forging.
func Hash(name, version string) uint64 {
	return mix(xxhash.Sum64String(name) + 3*xxhash.Sum64String(version))
}

// mix spreads what differs in some bits over all, so that sums of hashes do not meet by chance (the finalizer of MurmurHash3).
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// With gives the set as it is after a change: the updated resources are added or take the place of those of their names,
// the removed names are gone. It is the set itself if nothing comes out different; a resource whose version is the
// same stays the one that it was. updated may come in any order, each name once. A nil set is empty.
func (s *Set) With(updated []*Resource, removed []string) *Set {
	changes := make([]*Resource, 0, len(updated)+len(removed))
	for _, r := range updated {
		if old := s.Get(r.Name); old == nil || old.Version != r.Version {
			changes = append(changes, r)
		}
	}
	stays := map[string]bool{}
	if len(removed) > 0 {
		for _, r := range updated {
			stays[r.Name] = true
		}
	}
	for _, name := range removed {
		if !stays[name] && s.Get(name) != nil {
			changes = append(changes, &Resource{Name: name}) // stands for nothing: it has no type
		}
	}
	if len(changes) == 0 && s != nil {
		return s
	}
	slices.SortFunc(changes, func(a, b *Resource) int { return cmp.Compare(a.Name, b.Name) })
	next := s.merged(changes)
	if s == nil {
		return next
	}
	next.origin = weak.Make(s)
	for _, r := range changes {
		if r.TypeURL != "" {
			next.step.Updated = append(next.step.Updated, r)
		} else {
			next.step.Removed = append(next.step.Removed, r.Name)
		}
	}
	return next
}

// merged puts sorted changes in their places.
func (s *Set) merged(changes []*Resource) *Set {
	var sum uint64
	if s != nil {
		sum = s.sum
	}
	rest := s.List()
	list := make([]*Resource, 0, len(rest)+len(changes))
	for _, r := range changes {
		at, found := search(rest, r.Name)
		list = append(list, rest[:at]...)
		if found {
			sum -= Hash(rest[at].Name, rest[at].Version)
			at++
		}
		rest = rest[at:]
		if r.TypeURL != "" {
			list = append(list, r)
			sum += Hash(r.Name, r.Version)
		}
	}
	return sealed(append(list, rest...), sum)
}

func search(list []*Resource, name string) (at int, found bool) {
	return slices.BinarySearchFunc(list, name, func(r *Resource, n string) int { return cmp.Compare(r.Name, n) })
}

// noVersion is the version of an empty set.
const noVersion = "0000000000000000"

// Len is the number of resources. A nil set is empty.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return len(s.list)
}

// List gives the resources sorted by name; it must not be changed.
func (s *Set) List() []*Resource {
	if s == nil {
		return nil
	}
	return s.list
}

// Version is the content hash of the set, used as system version and as version_info in SotW.
func (s *Set) Version() string {
	if s == nil {
		return noVersion
	}
	return s.version
}

// Sum is the sum of the Hash of all members.
func (s *Set) Sum() uint64 {
	if s == nil {
		return 0
	}
	return s.sum
}

// Get finds a resource by name, nil if there is none.
func (s *Set) Get(name string) *Resource {
	if s == nil {
		return nil
	}
	i, found := search(s.list, name)
	if !found {
		return nil
	}
	return s.list[i]
}

// Diff is what turns one set into another.
type Diff struct {
	// Updated are resources that are new or whose version differs, sorted by name.
	Updated []*Resource
	// Removed are names that are gone, sorted.
	Removed []string
}

// Empty says that nothing differs.
func (d Diff) Empty() bool { return len(d.Updated) == 0 && len(d.Removed) == 0 }

// Compare gives the difference from old to new. Either may be nil.
func Compare(old, new *Set) Diff {
	switch {
	case old == new:
		return Diff{}
	case old != nil && new != nil && new.origin == weak.Make(old):
		return new.step
	}
	var d Diff
	a, b := old.List(), new.List()
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Name < b[0].Name:
			d.Removed = append(d.Removed, a[0].Name)
			a = a[1:]
		case len(a) == 0 || b[0].Name < a[0].Name:
			d.Updated = append(d.Updated, b[0])
			b = b[1:]
		default:
			if a[0] != b[0] && a[0].Version != b[0].Version {
				d.Updated = append(d.Updated, b[0])
			}
			a, b = a[1:], b[1:]
		}
	}
	return d
}
