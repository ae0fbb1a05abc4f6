package explain

import (
	"fmt"
	"net/netip"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Explain returns the path of a call through the resources of a proxy, without endings of share 0.
// The path also has the dynamic metadata that filters set, and the wait of listener filters is
// added to each delay. It fails only if a resource cannot be decoded. Everything else that stops
// the walk is reported as a step.
func Explain(r *Resources, call Call) (*Path, error) {
	w := &walk{Resources: r, call: call, path: &Path{Call: call}, remote: call.From.Addr()}
	endings := w.followConnection()
	if w.err != nil {
		return nil, w.err
	}
	w.path.Endings = removeEmptyEndings(endings)
	for filter, s := range w.metadata {
		if w.path.Metadata == nil {
			w.path.Metadata = map[string]map[string]any{}
		}
		w.path.Metadata[filter] = s.AsMap()
	}
	for i := range w.path.Endings {
		w.path.Endings[i].Delay += w.waited
	}
	return w.path, nil
}

// walk is the state of one call to Explain.
type walk struct {
	*Resources
	call Call
	path *Path
	err  error // the first error

	// Properties of the connection that listener filters have detected.
	transport string   // compared with FilterChainMatch.transport_protocol
	protocols []string // compared with FilterChainMatch.application_protocols
	// secured is set once the filter chain has terminated TLS. dynamic is the name that a filter
	// resolves for dynamic clusters.
	secured bool
	dynamic string
	// known is set once a filter has used the connection's local address as its original
	// destination.
	known bool
	// remote is the address of the original client, which rules match. metadata is the dynamic
	// metadata that filters have set, by filter.
	remote   netip.Addr
	metadata map[string]*structpb.Struct
	// waited is the time that listener filters waited for the first bytes.
	waited time.Duration
	// from lists the source objects of the current listener. own reports whether the call is to the
	// listener's own port.
	from []config.Key
	own  bool
}

// addStep appends a step to the path.
func (w *walk) addStep(s Step) { w.path.Steps = append(w.path.Steps, s) }

// addNote appends a step without source objects.
func (w *walk) addNote(stage Stage, resource, format string, args ...any) {
	w.addStep(Step{Stage: stage, Resource: resource, Decided: fmt.Sprintf(format, args...)})
}

// endUnsupported appends a StageUnsupported step and returns an Unknown ending with the same
// reason.
func (w *walk) endUnsupported(resource, format string, args ...any) []Ending {
	reason := fmt.Sprintf(format, args...)
	w.addStep(Step{Stage: StageUnsupported, Resource: resource, Decided: reason})
	return []Ending{{Share: 1, Kind: Unknown, Reason: reason}}
}

// failWith records err, unless an earlier error is recorded, and returns an ending that stops the
// walk. Explain then returns the recorded error.
func (w *walk) failWith(err error) []Ending {
	if w.err == nil {
		w.err = err
	}
	return singleEnding(Unknown, err.Error())
}

// singleEnding returns the single ending of a call that is not forwarded.
func singleEnding(kind Kind, reason string) []Ending {
	return []Ending{{Share: 1, Kind: kind, Reason: reason}}
}

// followConnection selects the listener and its filter chain, then runs the network filters, and
// adds their steps. It returns the endings of the first of these steps that ends the call. A
// listener that was not found is an ending too.
func (w *walk) followConnection() []Ending {
	l, endings := w.selectListener()
	if l.message == nil || endings != nil {
		return endings
	}
	chain, endings := w.selectChain(l)
	if endings != nil {
		return endings
	}
	return w.runNetworkFilters(chain)
}

// selectChain runs the listener filters of l and returns the filter chain that matches. It sets
// w.from to the objects of l, and w.own to whether the call is to the listener's own port. Endings
// are returned if the call stops here. A filter chain matcher is unsupported.
func (w *walk) selectChain(l decoded[*listenerv3.Listener]) (*listenerv3.FilterChain, []Ending) {
	w.from = l.from
	at, _ := socketAddress(l.message.GetAddress())
	w.own = at.Port() == w.call.To.Port()
	if endings := w.runListenerFilters(l.message); endings != nil {
		return nil, endings
	}
	if l.message.GetFilterChainMatcher() != nil {
		return nil, w.endUnsupported(l.message.GetName(), "filter_chain_matcher of the listener is not supported")
	}
	return w.filterChain(l)
}

// scaleShares returns copies of the endings with their shares multiplied by a factor.
func scaleShares(endings []Ending, by float64) []Ending {
	out := make([]Ending, 0, len(endings))
	for _, e := range endings {
		e.Share *= by
		out = append(out, e)
	}
	return out
}

// removeEmptyEndings returns the endings whose share is not 0. It overwrites the slice.
func removeEmptyEndings(endings []Ending) []Ending {
	out := endings[:0]
	for _, e := range endings {
		if e.Share > 0 {
			out = append(out, e)
		}
	}
	return out
}
