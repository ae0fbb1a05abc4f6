package patch

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	networking "istio.io/api/networking/v1alpha3"
)

// filterMessage is a filter of a listener, a chain or a connection manager.
type filterMessage interface {
	proto.Message
	GetName() string
	GetTypedConfig() *anypb.Any
}

// filterList applies patches to one list of filters.
type filterList[F filterMessage] struct {
	work    *listenerWork
	applyTo applyTo
	// matches reports whether a patch applies to this list.
	matches func(i int, p *patch) bool
	// classes determine the position of added filters. terminal reports which filters must be the
	// last; nil if none.
	classes  filterClasses
	terminal func(typed *anypb.Any) bool
}

// apply returns the list after all patches of type l.applyTo, and whether any had an effect. They
// apply in their order, in which merges come last unless they are of listener filters, as in Istio.
// A patch that would leave a filter after a terminal one fails, and changes nothing. A filter into
// which the merge is invalid stays unchanged. Effects and failures are recorded in l.work; filters
// is not modified.
func (l filterList[F]) apply(filters []F) (out []F, changed bool) {
	var merges []int
	for i, p := range l.work.patchesOf(l.applyTo) {
		switch {
		case !l.matches(i, p):
		case !p.merges():
			next, n := l.editFilters(filters, p)
			if err := l.checkEnd(next); n > 0 && err != nil {
				l.work.fail(i, err)
				continue
			}
			filters, changed = next, changed || n > 0
			l.work.recordEffects(i, n)
		case l.applyTo == networking.EnvoyFilter_LISTENER_FILTER:
			next, n := l.mergeFilters(filters, i)
			filters, changed = next, changed || n > 0
		default:
			merges = append(merges, i)
		}
	}
	for _, i := range merges {
		next, n := l.mergeFilters(filters, i)
		filters, changed = next, changed || n > 0
	}
	return filters, changed
}

// mergeFilters merges the patch with index i into the filters that it selects, and returns the new
// list and the number of affected filters. Effects and a failure are recorded in l.work; filters is
// not modified.
func (l filterList[F]) mergeFilters(filters []F, i int) ([]F, int) {
	p := l.work.list.patches[i]
	next, n, err := mergeSelected(filters, p.selectsFilter, func(f F) (F, error) { return mergeFilter(f, p) })
	if err != nil {
		l.work.fail(i, err)
	}
	l.work.recordEffects(i, n)
	return next, n
}

// editFilters applies a patch that adds, replaces or removes filters, and returns the new list and
// the number of affected filters. An added filter is placed by its class, in which it is also
// recorded (l.classes). filters is not modified.
func (l filterList[F]) editFilters(filters []F, p *patch) ([]F, int) {
	if value, ok := p.value.(F); ok && p.adds() {
		at := l.positionOf(filters, p.class)
		l.classes.addFilter(p.class, value.GetName())
		return slices.Insert(slices.Clone(filters), at, value), 1
	}
	return editList(filters, p, func(f F) bool { return !p.isAnchored() || f.GetName() == p.anchor() })
}

// positionOf returns the index at which a filter with a class is added (positionOfClass).
func (l filterList[F]) positionOf(filters []F, class filterClass) int {
	names := make([]filterName, len(filters))
	for i, f := range filters {
		names[i] = filterName{f.GetName(), l.isTerminal(f)}
	}
	return positionOfClass(names, l.classes, class)
}

// isTerminal reports whether a filter must be the last of the list. It returns false for all
// filters if l.terminal is nil.
func (l filterList[F]) isTerminal(f F) bool {
	return l.terminal != nil && l.terminal(f.GetTypedConfig())
}

// checkEnd returns an error that names the terminal filter if another filter follows it, otherwise
// nil.
func (l filterList[F]) checkEnd(filters []F) error {
	for i, f := range filters {
		if i < len(filters)-1 && l.isTerminal(f) {
			return fmt.Errorf("%q must stay the last filter", f.GetName())
		}
	}
	return nil
}

// selectsFilter reports whether a merge applies to a filter: by the name in the match, or if it has
// none, by the type of the value.
func (p *patch) selectsFilter(f filterMessage) bool {
	if p.isAnchored() {
		return f.GetName() == p.anchor()
	}
	v, ok := p.value.(filterMessage)
	return ok && v.GetTypedConfig() != nil && v.GetTypedConfig().GetTypeUrl() == f.GetTypedConfig().GetTypeUrl()
}

var errDiscovered = errors.New("the filter is configured by discovery: patch its EXTENSION_CONFIG")

// mergeFilter returns a copy of the filter with the value of the patch merged into it, including
// its packed config. It returns f with an error if the patch has no value, the config comes by
// discovery, types differ, or the result is invalid.
func mergeFilter[F filterMessage](f F, p *patch) (F, error) {
	value, ok := p.value.(F)
	if !ok {
		return f, errNoValue
	}
	next, rest := proto.CloneOf(f), value
	if src := value.GetTypedConfig(); src != nil {
		if f.GetTypedConfig() == nil {
			return f, errDiscovered
		}
		typed, err := mergeTyped(f.GetTypedConfig(), src, p.replacesLists())
		if err != nil {
			return f, err
		}
		rest = proto.CloneOf(value)
		typedConfig := next.ProtoReflect().Descriptor().Fields().ByName("typed_config")
		rest.ProtoReflect().Clear(typedConfig)
		next.ProtoReflect().Set(typedConfig, protoreflect.ValueOfMessage(typed.ProtoReflect()))
	}
	merge(next, rest, p.replacesLists())
	if err := check(next); err != nil {
		return f, err
	}
	return next, nil
}
