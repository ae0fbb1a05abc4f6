package resource

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"weak"

	"github.com/cespare/xxhash/v2"
)

// Set is an immutable collection of resources of one type, sorted by name, without duplicates.
type Set struct {
	// chunks are the resources in their order. None is empty, and sets that With derives share the
	// chunks that have not changed: a change of one endpoint would otherwise copy the whole list for
	// each group of proxies.
	chunks []chunk
	length int
	list   atomic.Pointer[[]*Resource] // the result of List; nil before the first call
	// sum is the sum of all members' hashes, so that a change of some members does not require the
	// others.
	sum     uint64
	version string
	// origin is the set that With derived this set from, if it is still in use, and step is the
	// difference.
	origin weak.Pointer[Set]
	step   Diff
}

// chunk is a part of a set, sorted by name. It is immutable.
type chunk []*Resource

// last returns the last name.
func (c chunk) last() string { return c[len(c)-1].Name }

// chunkSize is the length of the chunks that a list is divided into. A chunk that grows to twice as
// much is divided again.
const chunkSize = 64

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
	kept = slices.Clip(kept)
	s := sealed(appendChunks(nil, kept), sum)
	s.list.Store(&kept)
	return s, err
}

// sealed returns a set of chunks. sum is the sum of the members' hashes.
func sealed(chunks []chunk, sum uint64) *Set {
	s := &Set{chunks: chunks, sum: sum, version: hex.EncodeToString(binary.BigEndian.AppendUint64(nil, sum))}
	for _, c := range chunks {
		s.length += len(c)
	}
	return s
}

// appendChunks appends a sorted list to chunks, divided into chunks that share its memory.
func appendChunks(chunks []chunk, list []*Resource) []chunk {
	for len(list) >= 2*chunkSize {
		chunks = append(chunks, list[:chunkSize:chunkSize])
		list = list[chunkSize:]
	}
	if len(list) > 0 {
		chunks = append(chunks, list)
	}
	return chunks
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
	old := s.allChunks()
	if len(old) == 0 {
		list, delta := chunk(nil).withChanges(changes)
		return sealed(appendChunks(nil, list), sum+delta)
	}
	chunks := make([]chunk, 0, len(old)+1)
	for i, c := range old {
		n := len(changes) // the last chunk also takes what sorts after it
		if i < len(old)-1 {
			n = countUntil(changes, c.last())
		}
		if n == 0 {
			chunks = append(chunks, c)
			continue
		}
		changed, delta := c.withChanges(changes[:n])
		chunks, sum, changes = appendChunks(chunks, changed), sum+delta, changes[n:]
	}
	return sealed(chunks, sum)
}

// countUntil returns the number of resources of a sorted list up to name, which is included.
func countUntil(list []*Resource, name string) int {
	at, found := search(list, name)
	if found {
		at++
	}
	return at
}

// withChanges returns a copy of the chunk with changes applied, as for Set.withChanges, and the
// difference between the sums of both's hashes.
func (c chunk) withChanges(changes []*Resource) (list []*Resource, delta uint64) {
	list = make([]*Resource, 0, len(c)+len(changes))
	for _, r := range changes {
		at, found := search(c, r.Name)
		list = append(list, c[:at]...)
		if found {
			delta -= Hash(c[at].Name, c[at].Version)
			at++
		}
		c = c[at:]
		if r.TypeURL != "" {
			list = append(list, r)
			delta += Hash(r.Name, r.Version)
		}
	}
	return append(list, c...), delta
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
	return s.length
}

// allChunks returns the chunks, nil for a nil set.
func (s *Set) allChunks() []chunk {
	if s == nil {
		return nil
	}
	return s.chunks
}

// All returns an iterator over the resources, sorted by name. A nil set has none.
func (s *Set) All() iter.Seq[*Resource] {
	return func(yield func(*Resource) bool) {
		for _, c := range s.allChunks() {
			for _, r := range c {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// List returns the resources sorted by name, or nil for a nil set. Callers must not modify the list.
// The first call for a set that With has derived joins its chunks, so All is cheaper.
func (s *Set) List() []*Resource {
	if s == nil {
		return nil
	}
	if list := s.list.Load(); list != nil {
		return *list
	}
	list := slices.AppendSeq(make([]*Resource, 0, s.length), s.All())
	s.list.Store(&list)
	return list
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
	c := s.Cursor()
	return c.Find(name)
}

// Cursor finds resources of a set by ascending names.
type Cursor struct{ chunks []chunk }

// Cursor returns a Cursor at the beginning of the set. That of a nil set finds nothing.
func (s *Set) Cursor() Cursor { return Cursor{s.allChunks()} }

// Find returns the resource with a name, or nil. Names must be passed in ascending order. Find skips
// the chunks before the name by exponential search, which is fast for close names.
func (c *Cursor) Find(name string) *Resource {
	end := 1
	for end < len(c.chunks) && c.chunks[end-1].last() < name {
		end *= 2
	}
	begin := end / 2
	skipped, _ := slices.BinarySearchFunc(
		c.chunks[begin:min(end, len(c.chunks))],
		name,
		func(c chunk, n string) int { return cmp.Compare(c.last(), n) },
	)
	if c.chunks = c.chunks[begin+skipped:]; len(c.chunks) == 0 {
		return nil
	}
	at, found := search(c.chunks[0], name)
	if !found {
		return nil
	}
	return c.chunks[0][at]
}
