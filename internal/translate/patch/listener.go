package patch

import (
	"errors"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
)

// listenerWork is a listener being patched. All its patches match the listener itself.
type listenerWork struct {
	tallies
	list     *list
	listener *listenerv3.Listener
	gateway  bool
}

// patchesOf iterates over the patches of type a, with their indexes in the list.
func (w *listenerWork) patchesOf(a applyTo) func(yield func(int, *patch) bool) {
	return func(yield func(int, *patch) bool) {
		for i, p := range w.list.patches {
			if p.applyTo == a && !yield(i, p) {
				return
			}
		}
	}
}

// patchListener applies the patches of k, which match the listener: removal, which takes
// precedence, merges, then listener filters and chains. Failures are recorded in the outcome, which
// has no resource if the listener is removed. If it cannot be decoded or encoded, it is unchanged
// and all patches fail.
func patchListener(k task) *outcome {
	l := k.patches
	w := &listenerWork{
		tallies:  make(tallies, len(l.patches)),
		list:     l,
		listener: new(listenerv3.Listener),
		gateway:  k.gateway,
	}
	for i, p := range w.patchesOf(networking.EnvoyFilter_LISTENER) {
		if p.removes() {
			w.recordEffects(i, 1)
			return &outcome{tallies: w.tallies}
		}
	}
	if err := proto.Unmarshal(k.resource.Body, w.listener); err != nil {
		return w.unreadable(k.resource, l, err)
	}
	for i, p := range w.patchesOf(networking.EnvoyFilter_LISTENER) {
		w.recordDepth(i, matchedResource)
		next, err := mergeListener(w.listener, p)
		if err != nil {
			w.fail(i, err)
			continue
		}
		w.listener = next
		w.recordEffects(i, 1)
	}
	w.patchListenerFilters()
	w.patchChains()
	return w.encodeOutcome(k.resource, l, w.listener)
}

// mergeListener returns a copy of l with the value of a patch merged into it. It returns an error
// if the patch has no value or renames the listener, or the result is invalid.
func mergeListener(l *listenerv3.Listener, p *patch) (*listenerv3.Listener, error) {
	value, ok := p.value.(*listenerv3.Listener)
	switch {
	case !ok:
		return nil, errNoValue
	case value.GetName() != "" && value.GetName() != l.GetName():
		return nil, errRename
	default:
		return mergeMessage(l, p)
	}
}

// patchListenerFilters applies the LISTENER_FILTER patches to w.listener, and records effects and
// failures in w.
func (w *listenerWork) patchListenerFilters() {
	f := filterList[*listenerv3.ListenerFilter]{
		work: w, applyTo: networking.EnvoyFilter_LISTENER_FILTER,
		matches: func(i int, _ *patch) bool {
			w.recordDepth(i, matchedChain)
			return true
		},
	}
	w.listener.ListenerFilters, _ = f.apply(w.listener.GetListenerFilters())
}

var errNoChains = errors.New("without this filter chain the listener would have none")

// patchChains applies FILTER_CHAIN patches to the chains and the default chain of w.listener, and
// to each chain the patches of its content. Removing the last chain fails; the default chain counts
// as one. Chains are added last and not patched. Adding one with the match of another chain fails,
// except for the match of the default chain.
func (w *listenerWork) patchChains() {
	l := w.listener
	var kept []*listenerv3.FilterChain
	for i, c := range l.GetFilterChains() {
		others := len(kept) + len(l.GetFilterChains()) - i - 1
		if next := w.patchChain(c, others > 0 || l.GetDefaultFilterChain() != nil); next != nil {
			kept = append(kept, next)
		}
	}
	l.FilterChains = kept
	if l.DefaultFilterChain != nil {
		l.DefaultFilterChain = w.patchChain(l.DefaultFilterChain, len(kept) > 0)
	}
	for i, p := range w.patchesOf(networking.EnvoyFilter_FILTER_CHAIN) {
		value, ok := p.value.(*listenerv3.FilterChain)
		if !p.adds() || !ok {
			continue
		}
		w.recordDepth(i, matchedResource)
		if slices.ContainsFunc(l.FilterChains, func(c *listenerv3.FilterChain) bool { return sameMatch(c, value) }) {
			w.fail(i, errSameMatch)
			continue
		}
		l.FilterChains = append(l.FilterChains, value)
		w.recordEffects(i, 1)
	}
}

var errSameMatch = errors.New("the listener has a filter chain with the same filter_chain_match")

// sameMatch reports whether both chains have an equal filter_chain_match, so that Envoy would
// refuse a listener with both. nil equals an empty match.
func sameMatch(a, b *listenerv3.FilterChain) bool {
	empty := new(listenerv3.FilterChainMatch)
	or := func(m *listenerv3.FilterChainMatch) *listenerv3.FilterChainMatch {
		if m == nil {
			return empty
		}
		return m
	}
	return proto.Equal(or(a.GetFilterChainMatch()), or(b.GetFilterChainMatch()))
}
