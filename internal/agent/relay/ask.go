package relay

import (
	"context"
	"errors"
	"slices"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// debugType is the type of questions about the control plane itself. An answer has the type of its question.
const debugType = "istio.io/debug"

func isDebug(typeURL string) bool {
	return typeURL == debugType || strings.HasPrefix(typeURL, debugType+"/")
}

// maxQuestions bounds the questions of a type that wait for an answer. Each is sent as it is: questions are not joined.
const maxQuestions = maxWaiting

var (
	errNotConnected = errors.New("not connected to the control plane")
	errNoAnswers    = errors.New("the control plane does not answer questions")
)

// Ask puts a question to the control plane on the newest stream that Envoy has ("istio.io/debug", "syncz"), and gives the
// resources of the answer.
func (r *Relay) Ask(ctx context.Context, typeURL string, names ...string) ([]*discoveryv3.Resource, error) {
	r.mu.Lock()
	var s *session
	if n := len(r.sessions); n > 0 {
		s = r.sessions[n-1]
	}
	r.mu.Unlock()
	if s == nil || !s.listeners.Load() || !isDebug(typeURL) {
		return nil, errNotConnected
	}
	f, err := s.form.ask(typeURL, names, nil)
	if err != nil {
		return nil, err
	}
	answer, err := s.ask(request{typeURL, f})
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

// ask sends a question, and gives the channel that its answer comes by. Answers of a type come in the order of the questions:
// whoever gives up waiting keeps its place.
func (s *session) ask(r request) (<-chan *response, error) {
	s.asking.Lock()
	defer s.asking.Unlock()
	if len(s.asked[r.typeURL]) >= maxQuestions {
		return nil, errNoAnswers
	}
	if err := s.queue.push(r); err != nil {
		return nil, err
	}
	answer := make(chan *response, 1)
	s.asked[r.typeURL] = append(s.asked[r.typeURL], answer)
	return answer, nil
}

// answered gives an answer to whoever has waited longest for one of its type.
func (s *session) answered(typeURL string, f frame) error {
	r, err := s.form.open(f)
	if err != nil {
		return err
	}
	s.asking.Lock()
	if waiting := s.asked[typeURL]; len(waiting) > 0 {
		waiting[0] <- r // there is room for one
		s.asked[typeURL] = slices.Delete(waiting, 0, 1)
	}
	s.asking.Unlock()
	return nil
}
