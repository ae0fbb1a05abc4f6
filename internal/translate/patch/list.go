package patch

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
)

// editList applies a patch that adds, inserts, replaces or removes, and returns the new list and
// the number of affected elements. selects reports which elements the match includes: all are
// removed, only the first is replaced or anchors an insertion. REPLACE and insertions with an
// anchor do nothing if there is none, nor does a patch whose value has another type than E. ADD
// appends and INSERT_FIRST prepends, as INSERT_AFTER and INSERT_BEFORE do without an anchor. list
// is not modified.
func editList[E proto.Message](list []E, p *patch, selects func(E) bool) ([]E, int) {
	if p.removes() {
		kept := slices.DeleteFunc(slices.Clone(list), selects)
		return kept, len(list) - len(kept)
	}
	value, ok := p.value.(E)
	if !ok {
		return list, 0
	}
	at := slices.IndexFunc(list, selects)
	if p.isAnchored() && !p.adds() && at < 0 {
		return list, 0
	}
	switch p.operation {
	case networking.EnvoyFilter_Patch_REPLACE:
		list = slices.Clone(list)
		list[at] = value
		return list, 1
	case networking.EnvoyFilter_Patch_INSERT_FIRST:
		at = 0
	case networking.EnvoyFilter_Patch_INSERT_BEFORE:
		if !p.isAnchored() {
			at = 0
		}
	case networking.EnvoyFilter_Patch_INSERT_AFTER:
		if at++; !p.isAnchored() {
			at = len(list)
		}
	case networking.EnvoyFilter_Patch_ADD:
		at = len(list)
	default:
		return list, 0
	}
	return slices.Insert(slices.Clone(list), at, value), 1
}

// mergeSelected returns a copy of list in which one has merged the patch into each element that
// selects includes, and their number. An element for which one fails is unchanged; the first such
// error is returned with the rest. If no element changes, out is list itself.
func mergeSelected[E filterMessage](
	list []E,
	selects func(filterMessage) bool,
	one func(E) (E, error),
) (out []E, n int, err error) {
	out = list
	for i, e := range list {
		if !selects(e) {
			continue
		}
		next, failure := one(e)
		if failure != nil {
			if err == nil {
				err = failure
			}
			continue
		}
		if n == 0 {
			out = slices.Clone(list)
		}
		out[i] = next
		n++
	}
	return out, n, err
}

// mergeMessage returns a copy of m with the value of the patch merged into it. If Envoy would
// refuse the result, it returns m and an error.
func mergeMessage[M proto.Message](m M, p *patch) (M, error) {
	c := proto.CloneOf(m)
	merge(c, p.value, p.replacesLists())
	if err := check(c); err != nil {
		return m, err
	}
	return c, nil
}
