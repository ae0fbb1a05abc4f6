package explain

import (
	"fmt"
	"net/netip"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// Explain says where a call goes by the resources of a proxy. The error is of a resource that cannot be decoded; whatever else
// stops the walk is a step.
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

// walk is an explanation in the making.
type walk struct {
	*Resources
	call Call
	path *Path
	err  error // the first

	// What is known of the connection so far.
	transport string   // of FilterChainMatch.transport_protocol
	protocols []string // of FilterChainMatch.application_protocols
	// secured says that the filter chain has ended TLS; dynamic is the name that a filter has had looked up.
	secured bool
	dynamic string
	// known is set once a filter has made the address that the client connected to the original destination.
	known bool
	// remote is the address of the first caller, by which requests are judged; metadata is what filters have said of the call.
	remote   netip.Addr
	metadata map[string]*structpb.Struct
	// waited is for how long listener filters had nothing to look at.
	waited time.Duration
	// from are the objects of the listener at work. own says that the call is to the listener's own port.
	from []config.Key
	own  bool
}

// step notes a decision.
func (w *walk) step(s Step) { w.path.Steps = append(w.path.Steps, s) }

// note notes one without objects.
func (w *walk) note(stage Stage, resource, format string, args ...any) {
	w.step(Step{Stage: stage, Resource: resource, Decided: fmt.Sprintf(format, args...)})
}

// unsupported gives up on what cannot be followed.
func (w *walk) unsupported(resource, format string, args ...any) []Ending {
	reason := fmt.Sprintf(format, args...)
	w.step(Step{Stage: StageUnsupported, Resource: resource, Decided: reason})
	return []Ending{{Share: 1, Kind: Unknown, Reason: reason}}
}

// fail notes an error, of which the first counts, and ends the walk.
func (w *walk) fail(err error) []Ending {
	if w.err == nil {
		w.err = err
	}
	return ended(Unknown, err.Error())
}

// ended gives the one ending of a call that is not forwarded.
func ended(kind Kind, reason string) []Ending {
	return []Ending{{Share: 1, Kind: kind, Reason: reason}}
}

// connection follows the call from its connection on.
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

// chain finds the filter chain of a listener after its listener filters have run.
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

// scaled gives endings with their shares times a factor.
func scaled(endings []Ending, by float64) []Ending {
	out := make([]Ending, 0, len(endings))
	for _, e := range endings {
		e.Share *= by
		out = append(out, e)
	}
	return out
}

// merged leaves out what never happens.
func merged(endings []Ending) []Ending {
	out := endings[:0]
	for _, e := range endings {
		if e.Share > 0 {
			out = append(out, e)
		}
	}
	return out
}
