package diff

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// FieldChange is a field of a resource that differs.
type FieldChange struct {
	// Path names the field. Elements of lists are named by their name, address or key:
	// virtual_hosts[reviews:9080].routes[default].route.weighted_clusters.clusters[v1].weight.
	Path string `json:"path"`
	// Before and After are the values. One of them is "" if the field is set on one side only.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// String returns the change in one line: "~ PATH: BEFORE -> AFTER", "+ PATH: AFTER" or "- PATH:
// BEFORE".
func (c FieldChange) String() string {
	switch {
	case c.Before == "":
		return "+ " + c.Path + ": " + c.After
	case c.After == "":
		return "- " + c.Path + ": " + c.Before
	default:
		return "~ " + c.Path + ": " + c.Before + " -> " + c.After
	}
}

// fieldDiff collects the differences of two messages.
type fieldDiff struct{ changes []FieldChange }

// diffMessages returns the fields that differ, in the order of the message's definition, or nil if
// there are none.
func diffMessages(before, after protoreflect.Message) []FieldChange {
	var d fieldDiff
	d.compareMessages("", before, after)
	return d.changes
}

// addChange adds a change unless both values are equal.
func (d *fieldDiff) addChange(path, before, after string) {
	if before != after {
		d.changes = append(d.changes, FieldChange{path, before, after})
	}
}

// compareMessages compares two messages at path, field by field, and adds each difference to d.
// Messages of different types, and leaves, are compared as one value. Maps are compared by key,
// lists by compareLists. A nested field that only one has is one change.
func (d *fieldDiff) compareMessages(path string, a, b protoreflect.Message) {
	if a.Descriptor() != b.Descriptor() || isLeaf(a.Descriptor()) {
		d.addChange(path, formatMessage(a), formatMessage(b))
		return
	}
	if x, ok := a.Interface().(*anypb.Any); ok {
		y, _ := b.Interface().(*anypb.Any)
		d.compareAnys(path, x, y)
		return
	}
	fields := a.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		at := strings.TrimPrefix(path+"."+string(f.Name()), ".")
		switch has := a.Has(f); {
		case !has && !b.Has(f):
		case f.Message() == nil && has && b.Has(f) && a.Get(f).Equal(b.Get(f)): // formatting costs more
		case f.IsMap():
			d.compareMaps(at, f, a.Get(f).Map(), b.Get(f).Map())
		case f.IsList():
			d.compareLists(at, f, a.Get(f).List(), b.Get(f).List())
		case f.Message() != nil && has && b.Has(f):
			d.compareMessages(at, a.Get(f).Message(), b.Get(f).Message())
		default:
			d.addChange(at, formatField(a, f), formatField(b, f))
		}
	}
}

// formatField returns the value of a field, or "" if it is not set.
func formatField(m protoreflect.Message, f protoreflect.FieldDescriptor) string {
	if !m.Has(f) {
		return ""
	}
	return formatValue(f, m.Get(f))
}

// compareAnys compares the messages in two Anys, field by field. If one of them cannot be decoded
// or the types differ, the whole values are one change. Equal bytes are equal without decoding.
func (d *fieldDiff) compareAnys(path string, a, b *anypb.Any) {
	if a.GetTypeUrl() == b.GetTypeUrl() && string(a.GetValue()) == string(b.GetValue()) {
		return
	}
	x, y := decodeAny(a), decodeAny(b)
	if x == nil || y == nil || a.GetTypeUrl() != b.GetTypeUrl() {
		d.addChange(path, formatMessage(a.ProtoReflect()), formatMessage(b.ProtoReflect()))
		return
	}
	d.compareMessages(path, x.ProtoReflect(), y.ProtoReflect())
}

// compareMaps compares two maps at path by their keys. f is the field of both. The changes are
// sorted by key.
func (d *fieldDiff) compareMaps(path string, f protoreflect.FieldDescriptor, a, b protoreflect.Map) {
	keys := map[string]protoreflect.MapKey{}
	for _, m := range []protoreflect.Map{a, b} {
		m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
			keys[k.String()] = k
			return true
		})
	}
	for _, name := range sortedKeys(keys) {
		k, at := keys[name], path+"["+name+"]"
		switch {
		case a.Has(k) && b.Has(k):
			d.compareValues(at, f.MapValue(), a.Get(k), b.Get(k))
		case a.Has(k):
			d.addChange(at, formatValue(f.MapValue(), a.Get(k)), "")
		default:
			d.addChange(at, "", formatValue(f.MapValue(), b.Get(k)))
		}
	}
}

// compareValues compares two elements of a list or map at path. f describes the element.
func (d *fieldDiff) compareValues(path string, f protoreflect.FieldDescriptor, a, b protoreflect.Value) {
	if f.Message() != nil {
		d.compareMessages(path, a.Message(), b.Message())
		return
	}
	d.addChange(path, formatValue(f, a), formatValue(f, b))
}

// compareLists compares two lists. Elements are paired by their keys if each list has distinct
// ones, and another order of common elements is a change of its own. Otherwise they are paired by
// their position between the equal elements at the beginning and at the end.
func (d *fieldDiff) compareLists(path string, f protoreflect.FieldDescriptor, a, b protoreflect.List) {
	keysA, okA := keysOf(f, a)
	keysB, okB := keysOf(f, b)
	if !okA || !okB {
		d.compareByPosition(path, f, a, b)
		return
	}
	pairRoutes(f, a, b, keysA, keysB)
	var commonA, commonB []string
	for i, k := range keysA {
		at := path + "[" + k + "]"
		if j := slices.Index(keysB, k); j >= 0 {
			commonA = append(commonA, k)
			d.compareValues(at, f, a.Get(i), b.Get(j))
		} else {
			d.addChange(at, formatValue(f, a.Get(i)), "")
		}
	}
	for j, k := range keysB {
		if slices.Contains(keysA, k) {
			commonB = append(commonB, k)
		} else {
			d.addChange(path+"["+k+"]", "", formatValue(f, b.Get(j)))
		}
	}
	d.addChange(path+" (order)", strings.Join(commonA, ", "), strings.Join(commonB, ", "))
}

// pairRoutes pairs each route that only a has with a route that only b has and whose match is
// equal: it sets its key in keysA to the other's. So a renamed route is compared with its former
// version. It does nothing for elements that are no routes.
func pairRoutes(f protoreflect.FieldDescriptor, a, b protoreflect.List, keysA, keysB []string) {
	if f.Message() == nil || f.Message().FullName() != "envoy.config.route.v3.Route" {
		return
	}
	match := f.Message().Fields().ByName("match")
	for i, k := range keysA {
		if slices.Contains(keysB, k) {
			continue
		}
		for j, other := range keysB {
			if !slices.Contains(keysA, other) && a.Get(i).Message().Get(match).Equal(b.Get(j).Message().Get(match)) {
				keysA[i] = other
				break
			}
		}
	}
}

// compareByPosition compares the elements of two lists between the equal ones at the beginning and
// at the end, by their position in each list counted from the beginning. Elements beyond the end of
// the other list are added or removed.
func (d *fieldDiff) compareByPosition(path string, f protoreflect.FieldDescriptor, a, b protoreflect.List) {
	equal := func(i, j int) bool { return a.Get(i).Equal(b.Get(j)) }
	first, lastA, lastB := 0, a.Len(), b.Len()
	for first < lastA && first < lastB && equal(first, first) {
		first++
	}
	for lastA > first && lastB > first && equal(lastA-1, lastB-1) {
		lastA, lastB = lastA-1, lastB-1
	}
	for i := first; i < max(lastA, lastB); i++ {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case i >= lastA:
			d.addChange(at, "", formatValue(f, b.Get(i)))
		case i >= lastB:
			d.addChange(at, formatValue(f, a.Get(i)), "")
		default:
			d.compareValues(at, f, a.Get(i), b.Get(i))
		}
	}
}

// keysOf returns the keys of a list's elements. ok is false if an element has none or two have the
// same.
func keysOf(f protoreflect.FieldDescriptor, l protoreflect.List) (keys []string, ok bool) {
	seen := make(map[string]bool, l.Len())
	for i := range l.Len() {
		k := elementKey(f, l.Get(i))
		if k == "" || seen[k] {
			return nil, false
		}
		seen[k] = true
		keys = append(keys, k)
	}
	return keys, true
}
