package stream

import (
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// Holdings are the resources of one type that a client says it has when it connects (initial_resource_versions). A proxy
// names some thousands, and has most or all of them as they are: so what it said stays as it came, one text with places in it,
// and is not looked into where its sum says that nothing differs. A nil Holdings is empty.
type Holdings struct {
	text string
	list []claim
	// left is how many of the list still count, sum the sum of their resource.Hash.
	left int
	sum  uint64
	// more are those that were put in later.
	more map[string]string

	// slots is the index by name, made when it is first needed: places in the list plus one, 0 where there is nothing.
	slots []uint32
	seed  maphash.Seed
}

// claim is a resource's name and version as places in the text. One that does not count any more ends before it begins.
type claim struct{ nameFrom, nameTo, versionFrom, versionTo uint32 }

func (e claim) void() bool { return e.nameFrom > e.nameTo }

// NewHoldings makes Holdings of a text, with room for so many. The text is kept.
func NewHoldings(text string, room int) *Holdings {
	return &Holdings{text: text, list: make([]claim, 0, room)}
}

// HoldingsOf makes Holdings of names and their versions.
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

// Add adds a resource by the places of its name and version in the text, which must be shorter than 4 GiB.
func (h *Holdings) Add(nameFrom, nameTo, versionFrom, versionTo int) {
	h.list = append(h.list, claim{uint32(nameFrom), uint32(nameTo), uint32(versionFrom), uint32(versionTo)})
	h.left++
	h.sum += resource.Hash(h.text[nameFrom:nameTo], h.text[versionFrom:versionTo])
}

// Len is the number of resources.
func (h *Holdings) Len() int {
	if h == nil {
		return 0
	}
	return h.left + len(h.more)
}

// All gives the names and versions.
func (h *Holdings) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if h == nil {
			return
		}
		for _, e := range h.list {
			if !e.void() && !yield(h.name(e), h.version(e)) {
				return
			}
		}
		for name, version := range h.more {
			if !yield(name, version) {
				return
			}
		}
	}
}

// are says that the resources are exactly those of the sets.
func (h *Holdings) are(sets []*resource.Set) bool {
	if h == nil || len(h.more) > 0 {
		return false
	}
	count, sum := 0, uint64(0)
	for _, s := range sets {
		count, sum = count+s.Len(), sum+s.Sum()
	}
	return h.left == count && h.sum == sum
}

// get gives the version of a resource.
func (h *Holdings) get(name string) (version string, holds bool) {
	if h == nil {
		return "", false
	}
	if version, holds = h.more[name]; holds {
		return version, true
	}
	if i := h.find(name); i >= 0 {
		return h.version(h.list[i]), true
	}
	return "", false
}

// drop takes resources out.
func (h *Holdings) drop(names ...string) {
	if h == nil {
		return
	}
	for _, n := range names {
		delete(h.more, n)
		for i := h.find(n); i >= 0; i = h.find(n) {
			h.sum -= resource.Hash(n, h.version(h.list[i]))
			h.list[i] = claim{nameFrom: 1}
			h.left--
		}
	}
}

// with puts a resource in, and gives the Holdings, new ones if there were none.
func (h *Holdings) with(name, version string) *Holdings {
	if h == nil {
		h = new(Holdings)
	}
	h.drop(name)
	if h.more == nil {
		h.more = map[string]string{}
	}
	h.more[name] = version
	return h
}

func (h *Holdings) name(e claim) string    { return h.text[e.nameFrom:e.nameTo] }
func (h *Holdings) version(e claim) string { return h.text[e.versionFrom:e.versionTo] }

// find gives the place of a name in the list, -1 if it is not there.
func (h *Holdings) find(name string) int {
	if h.left == 0 {
		return -1
	}
	if h.slots == nil {
		h.index()
	}
	mask := uint64(len(h.slots) - 1)
	for at := maphash.String(h.seed, name) & mask; h.slots[at] != 0; at = (at + 1) & mask {
		i := int(h.slots[at] - 1)
		if e := h.list[i]; !e.void() && h.name(e) == name {
			return i
		}
	}
	return -1
}

// index makes the index: open addressing, half full at most.
func (h *Holdings) index() {
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
