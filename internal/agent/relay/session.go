package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// maxConverting bounds the responses with extensions that wait for their code. One more holds up what comes after it.
const maxConverting = 16

// session is one stream of Envoy and the one to the control plane that belongs to it.
type session struct {
	relay *Relay
	// number is its place in the order of Envoy's streams.
	number uint64
	form   form
	down   grpc.ServerStream
	up     grpc.ClientStream
	end    context.CancelCauseFunc
	queue  *queue
	// converting are the responses whose extensions need code.
	converting chan frame
	// listeners is whether Envoy has asked for listeners: from then on the agent asks for its own.
	listeners atomic.Bool
	// sending is held while something is sent to Envoy.
	sending sync.Mutex
	// asked are the questions that wait for an answer, by type.
	asking sync.Mutex
	asked  map[string][]chan<- *response
}

func newSession(r *Relay, f form, down grpc.ServerStream, up grpc.ClientStream, end context.CancelCauseFunc) *session {
	return &session{
		relay: r, form: f, down: down, up: up, end: end, queue: newQueue(f),
		converting: make(chan frame, maxConverting), asked: map[string][]chan<- *response{},
	}
}

// The ends of a stream, for metrics and the log.
var (
	errEnvoyGone        = errors.New("envoy ended its stream")
	errControlPlaneGone = errors.New("the control plane ended its stream")
)

// run carries messages until one side ends.
func (s *session) run(ctx context.Context) error {
	// All of them end with their streams, and these when serve has returned: Envoy may be about not to read.
	go s.protect("read requests", s.readRequests)
	go s.protect("send requests", func() error { return s.sendRequests(ctx) })
	go s.protect("read responses", func() error { return s.readResponses(ctx) })
	go s.protect("convert extensions", func() error { return s.convert(ctx) })
	<-ctx.Done()
	cause := context.Cause(ctx)
	s.relay.ended(cause)
	return outcome(cause)
}

// protect runs a part of the session, and ends the session with its error. A part that panics ends it with an error too: Envoy
// opens another stream.
func (s *session) protect(doing string, part func() error) {
	s.end(s.relay.o.Recovery.Call("relay", part, "stream", s.number, "doing", doing))
}

// outcome is what Envoy is told.
func outcome(cause error) error {
	if errors.Is(cause, errEnvoyGone) || errors.Is(cause, context.Canceled) {
		return nil
	}
	return status.Error(codes.Unavailable, cause.Error())
}

// ended notes how a stream ended.
func (r *Relay) ended(cause error) {
	how := "ended"
	if code := status.Code(cause); code != codes.OK && code != codes.Unknown {
		how = code.String()
	}
	switch {
	case errors.Is(cause, errControlPlaneGone):
		r.o.Metrics.controlPlaneEnds.WithLabelValues(how).Inc()
		r.o.Log.Warn("the connection to the control plane ended", "how", cause)
	case errors.Is(cause, errEnvoyGone), errors.Is(cause, context.Canceled):
		r.o.Metrics.envoy.WithLabelValues(how).Inc()
		r.o.Log.Debug("envoy's stream ended", "how", cause)
	default:
		r.o.Log.Info("envoy's stream was ended", "why", cause)
	}
}

// readRequests takes what Envoy asks for.
func (s *session) readRequests() error {
	for {
		var f frame
		if err := s.down.RecvMsg(&f); err != nil {
			return gone(errEnvoyGone, err)
		}
		if err := s.requested(f); err != nil {
			return err
		}
	}
}

// gone joins how a side ended to which side it was.
func gone(which, how error) error {
	if errors.Is(how, io.EOF) {
		return which
	}
	return fmt.Errorf("%w: %w", which, how)
}

func (s *session) requested(f frame) error {
	typeURL, err := s.form.typeOfRequest(f)
	if err != nil {
		return fmt.Errorf("a request of envoy: %w", err)
	}
	if err := s.queue.push(request{typeURL, f}); err != nil {
		return err
	}
	if typeURL == api.ListenerType && s.listeners.CompareAndSwap(false, true) {
		return s.askOwn()
	}
	return nil
}

// askOwn asks for what the agent wants itself, after the first request, which says who is asking.
func (s *session) askOwn() error {
	for _, own := range s.relay.o.Own {
		f, err := s.form.ask(own.TypeURL, nil, own.versions())
		if err != nil {
			return err
		}
		if err := s.queue.push(request{own.TypeURL, f}); err != nil {
			return err
		}
	}
	return s.tellHealth(s.relay.workloadHealth())
}

// sendRequests passes requests on.
func (s *session) sendRequests(ctx context.Context) error {
	for {
		r, ok := s.queue.pop()
		if !ok {
			select {
			case <-s.queue.ready:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		s.relay.o.Metrics.requests.Inc()
		s.relay.o.Log.Debug("request", "type", api.ShortType(r.typeURL), "stream", s.number, "bytes", len(r.body))
		if err := s.up.SendMsg(&r.body); err != nil && !errors.Is(err, io.EOF) { // why it ended, the reader learns
			return gone(errControlPlaneGone, err)
		}
	}
}

// readResponses takes what the control plane sends.
func (s *session) readResponses(ctx context.Context) error {
	for {
		var f frame
		if err := s.up.RecvMsg(&f); err != nil {
			return gone(errControlPlaneGone, err)
		}
		s.relay.o.Metrics.responses.Inc()
		if err := s.responded(ctx, f); err != nil {
			return err
		}
	}
}

// responded does with a response what its type asks for.
func (s *session) responded(ctx context.Context, f frame) error {
	typeURL, err := f.text(responseType)
	if err != nil {
		return fmt.Errorf("%w: its message: %w", errControlPlaneGone, err)
	}
	s.relay.o.Log.Debug("response", "type", api.ShortType(typeURL), "stream", s.number, "bytes", len(f))
	for _, own := range s.relay.o.Own {
		if own.TypeURL == typeURL {
			return s.useOwn(own, f)
		}
	}
	switch {
	case isDebug(typeURL):
		return s.answered(typeURL, f)
	case typeURL == api.ExtensionType && s.relay.o.Convert != nil:
		select {
		case s.converting <- f:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	default:
		return s.send(f)
	}
}

func (s *session) send(f frame) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if err := s.down.SendMsg(&f); err != nil {
		return gone(errEnvoyGone, err)
	}
	return nil
}

// useOwn takes a response of the agent's own. An empty one says nothing.
func (s *session) useOwn(own *Own, f frame) error {
	r, err := s.form.open(f)
	if err != nil {
		return err
	}
	if len(r.resources) == 0 {
		return nil
	}
	var problem *rpcstatus.Status
	if err := own.use(r.resources[0]); err != nil {
		s.relay.o.Log.Warn("what the control plane sent to the agent is refused", "type", api.ShortType(r.typeURL), "error", err)
		problem = internal(err)
	}
	return s.acknowledge(r, problem)
}

func (s *session) acknowledge(r *response, problem *rpcstatus.Status) error {
	f, err := s.form.acknowledge(r, problem)
	if err != nil {
		return err
	}
	return s.queue.push(request{r.typeURL, f})
}

func internal(err error) *rpcstatus.Status {
	return &rpcstatus.Status{Code: int32(codes.Internal), Message: err.Error()}
}

// convert passes extensions on once their code is here, one response after the other, while other types go on.
func (s *session) convert(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case f := <-s.converting:
			if err := s.converted(ctx, f); err != nil {
				return err
			}
		}
	}
}

func (s *session) converted(ctx context.Context, f frame) error {
	r, err := s.form.open(f)
	if err != nil {
		return err
	}
	for _, one := range r.resources {
		if err := s.relay.o.Convert(ctx, one); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.relay.o.Log.Warn("an extension is refused", "error", err)
			return s.acknowledge(r, internal(err))
		}
	}
	out, err := s.form.replaced(r)
	if err != nil {
		return err
	}
	return s.send(out)
}
