package resource

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Set is an immutable collection of resources of one type, sorted by name, each name once.
type Set struct {
	list    []*Resource
	version string
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
	return &Set{list: kept, version: setVersion(kept)}, err
}

// setVersion hashes the names and versions of all members: equal sets have equal versions in every replica.
func setVersion(list []*Resource) string {
	d := xxhash.New()
	for _, r := range list {
		_, _ = d.WriteString(r.Name)
		_, _ = d.WriteString("\x00" + r.Version + "\x00")
	}
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, d.Sum64()))
}

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
		return setVersion(nil)
	}
	return s.version
}

// Get finds a resource by name, nil if there is none.
func (s *Set) Get(name string) *Resource {
	if s == nil {
		return nil
	}
	i, found := slices.BinarySearchFunc(s.list, name, func(r *Resource, n string) int { return cmp.Compare(r.Name, n) })
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
	if old == new {
		return Diff{}
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
