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

// Set is an immutable collection of resources of one type, sorted by name, without duplicates.
type Set struct {
	list []*Resource
	// sum is the sum of all members' hashes, so that a change of some members does not require the
	// others.
	sum     uint64
	version string
	// origin is the set that With derived this set from, if it is still in use, and step is the
	// difference.
	origin weak.Pointer[Set]
	step   Diff
}

// NewSet returns a set of the resources, in any order; list is not changed. A duplicate name is a
// bug of the generator: the first resource is kept, and the error names the last duplicate. The set
// is usable in spite of the error.
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

// sealed returns a set of a list that is sorted and without duplicates. sum is the sum of the
// members' hashes.
func sealed(list []*Resource, sum uint64) *Set {
	return &Set{list: list, sum: sum, version: hex.EncodeToString(binary.BigEndian.AppendUint64(nil, sum))}
}

// Hash returns a hash of a resource's name and version. The sum of such hashes identifies a set of
// resources independently of their order, as in [Set.Sum]. It has 64 bits and is not secure against
// forgery.
func Hash(name, version string) uint64 {
	return mix(xxhash.Sum64String(name) + 3*xxhash.Sum64String(version))
}

// HashBytes returns Hash of a name and version that are not strings.
func HashBytes(name, version []byte) uint64 {
	return mix(xxhash.Sum64(name) + 3*xxhash.Sum64(version))
}

// mix spreads each input bit over all output bits (the finalizer of MurmurHash3), so that sums of
// hashes collide only by chance.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// With returns the set after a change; s stays as it is. Updated resources are added or replace
// resources of the same name, and resources with removed names are deleted. A resource with an
// unchanged version is kept as it is. If nothing changes, With returns s itself, or an empty set if
// s is nil. Each of updated must have a TypeURL and a name of its own, in any order, and it takes
// precedence over removed.
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
			changes = append(changes, &Resource{Name: name}) // marks a removal: it has no type
		}
	}
	if len(changes) == 0 && s != nil {
		return s
	}
	slices.SortFunc(changes, func(a, b *Resource) int { return cmp.Compare(a.Name, b.Name) })
	next := s.withChanges(changes)
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

// withChanges returns a new set with changes applied, which must be sorted by name and have
// distinct names; a change without a type is a removal. Names that are removed need not be in s,
// which may be nil.
func (s *Set) withChanges(changes []*Resource) *Set {
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

// search returns the position of a name in a sorted list. If the name is not found, it is the
// position to insert it at.
func search(list []*Resource, name string) (at int, found bool) {
	return slices.BinarySearchFunc(list, name, func(r *Resource, n string) int { return cmp.Compare(r.Name, n) })
}

// noVersion is the version of an empty set.
const noVersion = "0000000000000000"

// Len returns the number of resources. A nil set is empty.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return len(s.list)
}

// List returns the resources sorted by name, or nil for a nil set. Callers must not modify the
// list.
func (s *Set) List() []*Resource {
	if s == nil {
		return nil
	}
	return s.list
}

// Version returns the sum of the members' hashes in hexadecimal, which is the system version in
// delta and the version_info in SotW. A nil set has the version of an empty one.
func (s *Set) Version() string {
	if s == nil {
		return noVersion
	}
	return s.version
}

// Sum returns the sum of the hashes of all members, as Hash computes them, and 0 for a nil set.
func (s *Set) Sum() uint64 {
	if s == nil {
		return 0
	}
	return s.sum
}

// Get returns the resource with a name, or nil. A nil set has none.
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

// Diff is the difference between two sets.
type Diff struct {
	// Updated are resources that are new or have another version, sorted by name.
	Updated []*Resource
	// Removed are the names of deleted resources, sorted.
	Removed []string
}

// Empty reports whether nothing differs.
func (d Diff) Empty() bool { return len(d.Updated) == 0 && len(d.Removed) == 0 }

// Compare returns the difference from old to new, by names and versions, each list sorted by name.
// A nil set is empty. New resources are updates, resources of equal version are not. The result may
// be shared and must not be changed.
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
