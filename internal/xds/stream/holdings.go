package stream

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// Holdings are the resources of one type that a client reports to have when it connects
// (initial_resource_versions). A proxy reports some thousands, and most or all of them are current.
// The report is therefore kept as one text with offsets into it, or as a reference to the SetList
// that consists of the same resources. If its checksum shows that nothing differs, neither is
// searched. A nil Holdings is empty.
type Holdings struct {
	text string
	list []heldEntry
	// reported replaces text and list if it is not nil. dropped are names in it that removeNames has
	// removed.
	reported *SetList
	dropped  map[string]bool
	// left is the number of valid entries in list or reported, and sum is the sum of their
	// resource.Hash.
	left int
	sum  uint64
	// more are the entries that were added later by withVersion.
	more map[string]string

	// slots is a hash index by name, made when it is first needed. It contains indexes of list plus
	// one, or 0 for an empty slot.
	slots []uint32
	seed  maphash.Seed
}

// heldEntry is a resource's name and version as offsets into the text. In a deleted entry, nameFrom
// is greater than nameTo.
type heldEntry struct{ nameFrom, nameTo, versionFrom, versionTo uint32 }

// isDeleted reports whether the entry was removed by removeNames.
func (e heldEntry) isDeleted() bool { return e.nameFrom > e.nameTo }

// NewHoldings returns empty Holdings over a text, in which Add finds names and versions, with
// capacity for room resources. The text is retained.
func NewHoldings(text string, room int) *Holdings {
	return &Holdings{text: text, list: make([]heldEntry, 0, room)}
}

// HoldingsOfSets returns Holdings of the resources of l in their versions.
func HoldingsOfSets(l *SetList) *Holdings {
	return &Holdings{reported: l, left: l.count, sum: l.sum}
}

// HoldingsOf returns Holdings with the given names and versions, copied into one string, or nil if
// there are none.
func HoldingsOf(versions map[string]string) *Holdings {
	if len(versions) == 0 {
		return nil
	}
	var text strings.Builder
	names := slices.Sorted(maps.Keys(versions))
	for _, n := range names {
		text.WriteString(n + versions[n])
	}
	h, at := NewHoldings(text.String(), len(names)), 0
	for _, n := range names {
		version := at + len(n)
		end := version + len(versions[n])
		h.Add(at, version, version, end)
		at = end
	}
	return h
}

// Add adds a resource by the offsets of its name and version in the text, which must be shorter
// than 4 GiB. It must not be called after the first lookup of a name, which builds the index.
func (h *Holdings) Add(nameFrom, nameTo, versionFrom, versionTo int) {
	h.list = append(h.list, heldEntry{uint32(nameFrom), uint32(nameTo), uint32(versionFrom), uint32(versionTo)})
	h.left++
	h.sum += resource.Hash(h.text[nameFrom:nameTo], h.text[versionFrom:versionTo])
}

// Len returns the number of held resources, 0 if h is nil.
func (h *Holdings) Len() int {
	if h == nil {
		return 0
	}
	return h.left + len(h.more)
}

// All returns an iterator over names and versions, in no particular order. Removed names are left
// out; a name that was reported twice occurs twice. It is empty if h is nil.
func (h *Holdings) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if h == nil {
			return
		}
		for _, e := range h.list {
			if !e.isDeleted() && !yield(h.name(e), h.version(e)) {
				return
			}
		}
		if h.reported != nil {
			for _, set := range h.reported.sets {
				for r := range set.All() {
					if !h.dropped[r.Name] && !yield(r.Name, r.Version) {
						return
					}
				}
			}
		}
		for name, version := range h.more {
			if !yield(name, version) {
				return
			}
		}
	}
}

// equalSets reports whether h holds exactly the resources and versions of the sets, by comparing
// counts and checksums. It returns false if h is nil or contains entries that withVersion added.
func (h *Holdings) equalSets(l *SetList) bool {
	return h != nil && len(h.more) == 0 && h.left == l.count && h.sum == l.sum
}

// versionOf returns the version in which the client holds a resource. holds is false if h does not
// have it or is nil.
func (h *Holdings) versionOf(name string) (version string, holds bool) {
	if h == nil {
		return "", false
	}
	if version, holds = h.more[name]; holds {
		return version, true
	}
	return h.reportedVersion(name)
}

// isReported reports whether h contains a resource that the client reported itself, not one added
// by withVersion. h must not be nil.
func (h *Holdings) isReported(name string) bool {
	_, holds := h.reportedVersion(name)
	return holds
}

// reportedVersion returns the version of a resource that the client reported itself. holds is false
// if h does not have it.
func (h *Holdings) reportedVersion(name string) (version string, holds bool) {
	if h.reported != nil {
		if r := h.reported.find(name); r != nil && !h.dropped[name] {
			return r.Version, true
		}
		return "", false
	}
	if i := h.indexOf(name); i >= 0 {
		return h.version(h.list[i]), true
	}
	return "", false
}

// removeNames removes resources by name. Names that are not in h are ignored. h may be nil.
func (h *Holdings) removeNames(names ...string) {
	if h == nil {
		return
	}
	for _, n := range names {
		delete(h.more, n)
		h.dropReported(n)
		for i := h.indexOf(n); i >= 0; i = h.indexOf(n) {
			h.sum -= resource.Hash(n, h.version(h.list[i]))
			h.list[i] = heldEntry{nameFrom: 1}
			h.left--
		}
	}
}

// dropReported removes a name from h.reported. It does nothing if that is nil or does not have it.
func (h *Holdings) dropReported(name string) {
	if h.reported == nil {
		return
	}
	version, holds := h.reportedVersion(name)
	if !holds {
		return
	}
	if h.dropped == nil {
		h.dropped = map[string]bool{}
	}
	h.dropped[name] = true
	h.sum -= resource.Hash(name, version)
	h.left--
}

// withVersion sets the version of a resource in h, in place of any it had, and returns h. If h is
// nil, it returns new Holdings. From then on equalSets returns false.
func (h *Holdings) withVersion(name, version string) *Holdings {
	if h == nil {
		h = new(Holdings)
	}
	h.removeNames(name)
	if h.more == nil {
		h.more = map[string]string{}
	}
	h.more[name] = version
	return h
}

func (h *Holdings) name(e heldEntry) string    { return h.text[e.nameFrom:e.nameTo] }
func (h *Holdings) version(e heldEntry) string { return h.text[e.versionFrom:e.versionTo] }

// indexOf returns the index in h.list of a resource's name, or -1 if it is not there or was
// removed. The first call builds the hash index. With h.reported there is no list.
func (h *Holdings) indexOf(name string) int {
	if h.left == 0 || h.reported != nil {
		return -1
	}
	if h.slots == nil {
		h.buildIndex()
	}
	mask := uint64(len(h.slots) - 1)
	for at := maphash.String(h.seed, name) & mask; h.slots[at] != 0; at = (at + 1) & mask {
		i := int(h.slots[at] - 1)
		if e := h.list[i]; !e.isDeleted() && h.name(e) == name {
			return i
		}
	}
	return -1
}

// buildIndex builds the hash index. It uses open addressing and is at most half full.
func (h *Holdings) buildIndex() {
	size := 4
	for size < 2*len(h.list) {
		size *= 2
	}
	h.slots, h.seed = make([]uint32, size), maphash.MakeSeed()
	mask := uint64(size - 1)
	for i, e := range h.list {
		at := maphash.String(h.seed, h.name(e)) & mask
		for h.slots[at] != 0 {
			at = (at + 1) & mask
		}
		h.slots[at] = uint32(i + 1)
	}
}
