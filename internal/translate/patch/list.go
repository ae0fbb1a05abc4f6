package patch

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
)

// edited applies a patch that adds to a list or takes from it, and says to how many elements it did something. selects says
// which elements the match means; where the match names none, they are all meant. The list itself stays as it was.
func edited[E proto.Message](list []E, p *patch, selects func(E) bool) ([]E, int) {
	if p.removes() {
		kept := slices.DeleteFunc(slices.Clone(list), selects)
		return kept, len(list) - len(kept)
	}
	value, ok := p.value.(E)
	if !ok {
		return list, 0
	}
	at := slices.IndexFunc(list, selects)
	if p.anchored() && !p.adds() && at < 0 {
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
		if !p.anchored() {
			at = 0
		}
	case networking.EnvoyFilter_Patch_INSERT_AFTER:
		if at++; !p.anchored() {
			at = len(list)
		}
	case networking.EnvoyFilter_Patch_ADD:
		at = len(list)
	default:
		return list, 0
	}
	return slices.Insert(slices.Clone(list), at, value), 1
}

// mergedInto gives the list with the patch merged into the elements that are selected, each by one. It says into how many;
// an element for which one fails stays as it is, and the first error is given.
func mergedInto[E filterMessage](list []E, selects func(filterMessage) bool, one func(E) (E, error)) (out []E, n int, err error) {
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

// merged gives a copy of m with the value of the patch merged into it, if that is what Envoy may take.
func merged[M proto.Message](m M, p *patch) (M, error) {
	c := proto.CloneOf(m)
	merge(c, p.value, p.replacesLists())
	if err := check(c); err != nil {
		return m, err
	}
	return c, nil
}
