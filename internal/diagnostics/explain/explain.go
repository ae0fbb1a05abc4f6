package explain

import (
	"fmt"
	"net/netip"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Explain returns the path of a call through the resources of a proxy. It fails only if a resource
// cannot be decoded. Everything else that stops the walk is reported as a step.
func Explain(r *Resources, call Call) (*Path, error) {
	w := &walk{Resources: r, call: call, path: &Path{Call: call}, remote: call.From.Addr()}
	endings := w.connection()
	if w.err != nil {
		return nil, w.err
	}
	w.path.Endings = merged(endings)
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

// step appends a step to the path.
func (w *walk) step(s Step) { w.path.Steps = append(w.path.Steps, s) }

// note appends a step without source objects.
func (w *walk) note(stage Stage, resource, format string, args ...any) {
	w.step(Step{Stage: stage, Resource: resource, Decided: fmt.Sprintf(format, args...)})
}

// unsupported appends a StageUnsupported step and returns an Unknown ending with the same reason.
func (w *walk) unsupported(resource, format string, args ...any) []Ending {
	reason := fmt.Sprintf(format, args...)
	w.step(Step{Stage: StageUnsupported, Resource: resource, Decided: reason})
	return []Ending{{Share: 1, Kind: Unknown, Reason: reason}}
}

// fail records the first error and returns an ending that stops the walk.
func (w *walk) fail(err error) []Ending {
	if w.err == nil {
		w.err = err
	}
	return ended(Unknown, err.Error())
}

// ended returns the single ending of a call that is not forwarded.
func ended(kind Kind, reason string) []Ending {
	return []Ending{{Share: 1, Kind: kind, Reason: reason}}
}

// connection follows the call through its listener and filter chain, and returns its endings.
func (w *walk) connection() []Ending {
	l, endings := w.listener()
	if l.message == nil || endings != nil {
		return endings
	}
	chain, endings := w.chain(l)
	if endings != nil {
		return endings
	}
	return w.network(chain)
}

// chain runs the listener filters of l and returns the filter chain that matches. Endings are
// returned if the call stops here. A filter chain matcher is unsupported.
func (w *walk) chain(l decoded[*listenerv3.Listener]) (*listenerv3.FilterChain, []Ending) {
	w.from = l.from
	at, _ := socketAddress(l.message.GetAddress())
	w.own = at.Port() == w.call.To.Port()
	if endings := w.inspect(l.message); endings != nil {
		return nil, endings
	}
	if l.message.GetFilterChainMatcher() != nil {
		return nil, w.unsupported(l.message.GetName(), "the listener has a matcher for its filter chains, which is not followed")
	}
	return w.filterChain(l)
}

// scaled returns copies of the endings with their shares multiplied by a factor.
func scaled(endings []Ending, by float64) []Ending {
	out := make([]Ending, 0, len(endings))
	for _, e := range endings {
		e.Share *= by
		out = append(out, e)
	}
	return out
}

// merged removes the endings with share 0.
func merged(endings []Ending) []Ending {
	out := endings[:0]
	for _, e := range endings {
		if e.Share > 0 {
			out = append(out, e)
		}
	}
	return out
}
