package relay

import (
	"context"
	"errors"
	"slices"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// debugType is the resource type of debug requests about the control plane. A response has the type
// of its request.
const debugType = "istio.io/debug"

// isDebugType reports whether the type is debugType or below it.
func isDebugType(typeURL string) bool {
	return typeURL == debugType || strings.HasPrefix(typeURL, debugType+"/")
}

// maxPendingDebug bounds the pending debug requests of a type. They are never merged, unlike other
// requests.
const maxPendingDebug = maxQueued

var (
	errNotConnected   = errors.New("not connected to the control plane")
	errTooManyPending = errors.New("too many debug requests pending: the control plane does not respond")
)

// QueryDebug sends a debug request, such as ("istio.io/debug", "syncz"), to the control plane on
// Envoy's newest stream, and returns the resources of the response. It returns an error if the type
// is no debug type, there is no stream that has requested listeners, too many requests are pending,
// or the stream or ctx ends before the response.
func (r *Relay) QueryDebug(ctx context.Context, typeURL string, names ...string) ([]*discoveryv3.Resource, error) {
	r.mu.Lock()
	var s *session
	if n := len(r.sessions); n > 0 {
		s = r.sessions[n-1]
	}
	r.mu.Unlock()
	if s == nil || !s.listenersRequested.Load() || !isDebugType(typeURL) {
		return nil, errNotConnected
	}
	f, err := s.protocol.newRequest(typeURL, names, nil)
	if err != nil {
		return nil, err
	}
	answer, err := s.sendDebugRequest(request{typeURL, f})
	if err != nil {
		return nil, err
	}
	select {
	case got := <-answer:
		return got.resources, nil
	case <-s.down.Context().Done():
		return nil, errNotConnected
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sendDebugRequest sends a debug request and returns the channel of its response. Responses of a
// type arrive in the order of the requests, so a caller that stops waiting keeps its place. It
// fails, and sends nothing, if maxPendingDebug requests of the type are pending or the queue
// refuses r (push).
func (s *session) sendDebugRequest(r request) (<-chan *response, error) {
	s.debugMu.Lock()
	defer s.debugMu.Unlock()
	if len(s.pendingDebug[r.typeURL]) >= maxPendingDebug {
		return nil, errTooManyPending
	}
	if err := s.queue.push(r); err != nil {
		return nil, err
	}
	answer := make(chan *response, 1)
	s.pendingDebug[r.typeURL] = append(s.pendingDebug[r.typeURL], answer)
	return answer, nil
}

// deliverDebugResponse delivers a response to the oldest pending debug request of its type. Without
// one it is dropped. A malformed response is an error.
func (s *session) deliverDebugResponse(typeURL string, f frame) error {
	r, err := s.protocol.parseResponse(f)
	if err != nil {
		return err
	}
	s.debugMu.Lock()
	if waiting := s.pendingDebug[typeURL]; len(waiting) > 0 {
		waiting[0] <- r // does not block: the channel is buffered
		s.pendingDebug[typeURL] = slices.Delete(waiting, 0, 1)
	}
	s.debugMu.Unlock()
	return nil
}
