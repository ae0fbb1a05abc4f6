package explain

import (
	"strings"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
)

// Names of the supported listener filters.
const (
	originalDstFilter   = "original_dst"
	tlsInspectorFilter  = "tls_inspector"
	httpInspectorFilter = "http_inspector"
	proxyProtocolFilter = "proxy_protocol"
)

const (
	rawBuffer    = "raw_buffer"
	tlsTransport = "tls"
	// detectionTimeout is Envoy's default for Listener.listener_filters_timeout.
	detectionTimeout = 15 * time.Second
)

// inspect runs the listener filters and sets the transport and application protocols for filter
// chain matching. It returns endings if the call stops here. Unsupported filters add a step.
func (w *walk) inspect(l *listenerv3.Listener) []Ending {
	w.transport, w.protocols = "", nil
	for _, f := range l.GetListenerFilters() {
		kind := filterKind(f.GetName())
		switch kind {
		case originalDstFilter, proxyProtocolFilter:
			continue
		case tlsInspectorFilter, httpInspectorFilter:
		default:
			w.note(StageUnsupported, f.GetName(), "this listener filter is not followed")
			continue
		}
		off, known := w.disabled(f.GetFilterDisabled())
		if !known {
			w.note(StageUnsupported, f.GetName(), "when this filter is off is said in a way that is not followed")
		}
		if off {
			w.note(StageInspector, f.GetName(), "does not look at connections to port %d", w.call.To.Port())
			continue
		}
		if w.call.carries() == Silence {
			return w.silence(l, f.GetName())
		}
		w.look(kind, f.GetName())
	}
	if w.transport == "" {
		w.transport = rawBuffer
	}
	return nil
}

// filterKind returns the last part of a filter's name. Both "envoy.filters.listener.tls_inspector"
// and "tls_inspector" are in use.
func filterKind(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// look sets the protocols that an inspector detects in the first bytes.
func (w *walk) look(kind, name string) {
	c := w.call.carries()
	if kind == tlsInspectorFilter {
		if c != TLS {
			w.note(StageInspector, name, "sees no TLS")
			return
		}
		w.transport, w.protocols = tlsTransport, w.call.ALPN
		w.note(StageInspector, name, "sees TLS, server name %q, application protocols %q", w.call.ServerName, w.call.ALPN)
		return
	}
	if w.transport == tlsTransport {
		return // the HTTP inspector skips encrypted connections
	}
	switch c {
	case HTTP1, HTTP10, HTTP2:
		w.protocols = []string{string(c)}
		w.note(StageInspector, name, "sees HTTP: %s", c)
	default:
		w.note(StageInspector, name, "sees no HTTP in the clear")
	}
}

// silence handles a client that waits for the server to speak first. It returns endings unless the
// listener continues after the timeout of listener filters.
func (w *walk) silence(l *listenerv3.Listener, filter string) []Ending {
	timeout := detectionTimeout
	if d := l.GetListenerFiltersTimeout(); d != nil {
		timeout = d.AsDuration()
	}
	switch {
	case timeout == 0:
		w.note(StageInspector, filter, "waits for the client's first bytes, as long as it takes")
		return ended(Waiting, "the proxy waits for the client to speak first")
	case !l.GetContinueOnListenerFiltersTimeout():
		w.note(StageInspector, filter, "waits %s for the client's first bytes, and then closes the connection", timeout)
		return ended(Closed, "no first bytes in time")
	}
	w.note(StageInspector, filter, "waits %s for the client's first bytes, and then goes on without", timeout)
	w.transport, w.waited = rawBuffer, timeout
	return nil
}

// disabled evaluates a filter's filter_disabled predicate. known is false if the predicate is
// unsupported.
func (w *walk) disabled(p *listenerv3.ListenerFilterChainMatchPredicate) (off, known bool) {
	switch r := p.GetRule().(type) {
	case nil:
		return false, true
	case *listenerv3.ListenerFilterChainMatchPredicate_AnyMatch:
		return r.AnyMatch, true
	case *listenerv3.ListenerFilterChainMatchPredicate_NotMatch:
		off, known = w.disabled(r.NotMatch)
		return !off, known
	case *listenerv3.ListenerFilterChainMatchPredicate_OrMatch:
		for _, one := range r.OrMatch.GetRules() {
			if off, known = w.disabled(one); off || !known {
				return off, known
			}
		}
		return false, true
	case *listenerv3.ListenerFilterChainMatchPredicate_AndMatch:
		for _, one := range r.AndMatch.GetRules() {
			if off, known = w.disabled(one); !off || !known {
				return off, known
			}
		}
		return true, true
	case *listenerv3.ListenerFilterChainMatchPredicate_DestinationPortRange:
		port := int32(w.call.To.Port())
		return port >= r.DestinationPortRange.GetStart() && port < r.DestinationPortRange.GetEnd(), true
	default:
		return false, false
	}
}
