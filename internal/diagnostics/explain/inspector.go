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

// runListenerFilters runs the listener filters and sets the transport (raw_buffer without TLS) and
// application protocols for filter chain matching. It returns endings if a silent client cannot
// continue. Unsupported filters and disabled inspectors add a step and are skipped; original_dst
// and proxy_protocol are skipped without one. An inspector with an unsupported filter_disabled
// predicate adds a step and runs.
func (w *walk) runListenerFilters(l *listenerv3.Listener) []Ending {
	w.transport, w.protocols = "", nil
	for _, f := range l.GetListenerFilters() {
		kind := filterKind(f.GetName())
		switch kind {
		case originalDstFilter, proxyProtocolFilter:
			continue
		case tlsInspectorFilter, httpInspectorFilter:
		default:
			w.addNote(StageUnsupported, f.GetName(), "this listener filter is not supported")
			continue
		}
		off, known := w.isDisabled(f.GetFilterDisabled())
		if !known {
			w.addNote(StageUnsupported, f.GetName(), "its filter_disabled predicate is not supported")
		} else if off {
			w.addNote(StageInspector, f.GetName(), "is disabled for connections to port %d", w.call.To.Port())
			continue
		}
		if w.call.carriedProtocol() == Silence {
			return w.handleSilence(l, f.GetName())
		}
		w.detectProtocols(kind, f.GetName())
	}
	if w.transport == "" {
		w.transport = rawBuffer
	}
	return nil
}

// filterKind returns the last part of a filter's name. Both "envoy.filters.listener.tls_inspector"
// and "tls_inspector" are in use.
func filterKind(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// detectProtocols sets the transport and protocols that an inspector detects in the first bytes,
// and adds a step. The TLS inspector sets the transport tls and the client's ALPN, the HTTP
// inspector the HTTP version as protocol. The HTTP inspector does nothing after detected TLS.
func (w *walk) detectProtocols(kind, name string) {
	c := w.call.carriedProtocol()
	if kind == tlsInspectorFilter {
		if c != TLS {
			w.addNote(StageInspector, name, "detects no TLS")
			return
		}
		w.transport, w.protocols = tlsTransport, w.call.ALPN
		w.addNote(
			StageInspector,
			name,
			"detects TLS, server name %q, application protocols %q",
			w.call.ServerName,
			w.call.ALPN,
		)
		return
	}
	if w.transport == tlsTransport {
		return // the HTTP inspector skips encrypted connections
	}
	switch c {
	case HTTP1, HTTP10, HTTP2:
		w.protocols = []string{string(c)}
		w.addNote(StageInspector, name, "detects HTTP: %s", c)
	default:
		w.addNote(StageInspector, name, "detects no plaintext HTTP")
	}
}

// handleSilence handles a client that waits for the server to speak first, and adds a step. If the
// timeout of the listener filters (by default detectionTimeout) is 0, the connection is Waiting.
// Otherwise it is Closed after the timeout, unless the listener continues. Then it returns nil, and
// sets the plaintext transport and w.waited.
func (w *walk) handleSilence(l *listenerv3.Listener, filter string) []Ending {
	timeout := detectionTimeout
	if d := l.GetListenerFiltersTimeout(); d != nil {
		timeout = d.AsDuration()
	}
	switch {
	case timeout == 0:
		w.addNote(StageInspector, filter, "waits for the client's first bytes without a timeout")
		return singleEnding(Waiting, "the proxy waits for the client to speak first")
	case !l.GetContinueOnListenerFiltersTimeout():
		w.addNote(
			StageInspector,
			filter,
			"waits %s for the client's first bytes, and then closes the connection",
			timeout,
		)
		return singleEnding(Closed, "no first bytes in time")
	}
	w.addNote(StageInspector, filter, "waits %s for the client's first bytes, and then goes on without", timeout)
	w.transport, w.waited = rawBuffer, timeout
	return nil
}

// isDisabled returns the value of a listener filter's filter_disabled predicate for this call;
// without one it is false. known is false if the predicate is unsupported; off is then without
// meaning. An "or" is unknown only if no part before the unknown one is true, an "and" if none is
// false. A range of ports excludes its end.
func (w *walk) isDisabled(p *listenerv3.ListenerFilterChainMatchPredicate) (off, known bool) {
	switch r := p.GetRule().(type) {
	case nil:
		return false, p == nil // a kind of rule that this version of the API does not have is nil too
	case *listenerv3.ListenerFilterChainMatchPredicate_AnyMatch:
		return r.AnyMatch, true
	case *listenerv3.ListenerFilterChainMatchPredicate_NotMatch:
		off, known = w.isDisabled(r.NotMatch)
		return !off, known
	case *listenerv3.ListenerFilterChainMatchPredicate_OrMatch:
		for _, one := range r.OrMatch.GetRules() {
			if off, known = w.isDisabled(one); off || !known {
				return off, known
			}
		}
		return false, true
	case *listenerv3.ListenerFilterChainMatchPredicate_AndMatch:
		for _, one := range r.AndMatch.GetRules() {
			if off, known = w.isDisabled(one); !off || !known {
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
