package patch

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// filterMessage is a filter of a listener, a chain or a connection manager.
type filterMessage interface {
	proto.Message
	GetName() string
	GetTypedConfig() *anypb.Any
}

// filterList is how patches work on one list of filters.
type filterList[F filterMessage] struct {
	work    *listenerWork
	applyTo applyTo
	// matches says whether a patch is for this list at all.
	matches func(i int, p *patch) bool
	// classes place filters that are added. terminal says which must be the last; nil: none.
	classes  filterClasses
	terminal func(typed *anypb.Any) bool
}

// patched gives the list after all patches, merges last, and whether any did something.
func (l filterList[F]) patched(filters []F) (out []F, changed bool) {
	for i, p := range l.work.of(l.applyTo) {
		if p.merges() || !l.matches(i, p) {
			continue
		}
		next, n := l.edited(filters, p)
		if err := l.wellEnded(next); n > 0 && err != nil {
			l.work.fail(i, err)
			continue
		}
		filters, changed = next, changed || n > 0
		l.work.did(i, n)
	}
	for i, p := range l.work.of(l.applyTo) {
		if !p.merges() || !l.matches(i, p) {
			continue
		}
		next, n, err := mergedInto(filters, p.meansFilter, func(f F) (F, error) { return mergedFilter(f, p) })
		if err != nil {
			l.work.fail(i, err)
		}
		filters, changed = next, changed || n > 0
		l.work.did(i, n)
	}
	return filters, changed
}

func (l filterList[F]) edited(filters []F, p *patch) ([]F, int) {
	if value, ok := p.value.(F); ok && p.adds() {
		at := l.place(filters, p.class)
		l.classes.put(p.class, value.GetName())
		return slices.Insert(slices.Clone(filters), at, value), 1
	}
	return edited(filters, p, func(f F) bool { return !p.anchored() || f.GetName() == p.anchor() })
}

func (l filterList[F]) place(filters []F, class filterClass) int {
	names := make([]filterName, len(filters))
	for i, f := range filters {
		names[i] = filterName{f.GetName(), l.ends(f)}
	}
	return placeOfClass(names, l.classes, class)
}

func (l filterList[F]) ends(f F) bool { return l.terminal != nil && l.terminal(f.GetTypedConfig()) }

// wellEnded refuses filters behind one that lets nothing through.
func (l filterList[F]) wellEnded(filters []F) error {
	for i, f := range filters {
		if i < len(filters)-1 && l.ends(f) {
			return fmt.Errorf("%q must stay the last filter", f.GetName())
		}
	}
	return nil
}

// meansFilter says whether a merge is for a filter: one of the name that the match has, or if it has none, any of the
// value's type.
func (p *patch) meansFilter(f filterMessage) bool {
	if p.anchored() {
		return f.GetName() == p.anchor()
	}
	v, ok := p.value.(filterMessage)
	return ok && v.GetTypedConfig() != nil && v.GetTypedConfig().GetTypeUrl() == f.GetTypedConfig().GetTypeUrl()
}

var errDiscovered = errors.New("the filter is configured by discovery: patch its EXTENSION_CONFIG")

// mergedFilter gives a copy of the filter with the value merged into it, also into what it has packed.
func mergedFilter[F filterMessage](f F, p *patch) (F, error) {
	value, ok := p.value.(F)
	if !ok {
		return f, errNoValue
	}
	next, rest := proto.CloneOf(f), value
	if src := value.GetTypedConfig(); src != nil {
		if f.GetTypedConfig() == nil {
			return f, errDiscovered
		}
		typed, err := mergedTyped(f.GetTypedConfig(), src, p.replacesLists())
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
