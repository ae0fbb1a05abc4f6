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

// maxConverting bounds the responses with extensions that await conversion. A further one blocks
// all responses after it.
const maxConverting = 16

// session is a stream of Envoy with its stream to the control plane.
type session struct {
	relay *Relay
	// number is the position in the order of Envoy's streams.
	number   uint64
	protocol protocol
	down     grpc.ServerStream
	up       grpc.ClientStream
	end      context.CancelCauseFunc
	queue    *queue
	// conversions holds the responses with extensions that await conversion (extensions.go).
	conversions chan frame
	// listenersRequested is set once Envoy has requested listeners. The agent sends its own
	// requests only afterwards.
	listenersRequested atomic.Bool
	// sendMu is held while sending to Envoy.
	sendMu sync.Mutex
	// pendingDebug holds the response channels of pending debug requests by type, oldest first.
	// debugMu guards it.
	debugMu      sync.Mutex
	pendingDebug map[string][]chan<- *response
}

// newSession returns the session that connects Envoy's stream down with the control plane's stream
// up. It starts nothing; end ends the session.
func newSession(
	r *Relay, f protocol, down grpc.ServerStream, up grpc.ClientStream, end context.CancelCauseFunc,
) *session {
	return &session{
		relay: r, protocol: f, down: down, up: up, end: end, queue: newQueue(f),
		conversions: make(chan frame, maxConverting), pendingDebug: map[string][]chan<- *response{},
	}
}

// Which side ended a stream, for metrics and the log.
var (
	errEnvoyClosed        = errors.New("envoy ended its stream")
	errControlPlaneClosed = errors.New("the control plane ended its stream")
)

// run starts the session's goroutines, forwards messages until one side ends, and returns the
// status for Envoy's stream. It logs and counts the end. It does not await the goroutines.
func (s *session) run(ctx context.Context) error {
	// The goroutines end with their streams, which end when serveStream has returned. They are not
	// awaited, because a send blocks as long as Envoy does not read.
	go s.runRecovered("read requests", s.readRequests)
	go s.runRecovered("send requests", func() error { return s.sendRequests(ctx) })
	go s.runRecovered("read responses", func() error { return s.readResponses(ctx) })
	go s.runRecovered("convert extensions", func() error { return s.convertResponses(ctx) })
	<-ctx.Done()
	cause := context.Cause(ctx)
	s.relay.recordEnd(cause)
	return streamStatus(cause)
}

// runRecovered runs a part of the session, and ends the session with its error. A panic in it is
// recovered and ends the session too; Envoy then opens a new stream.
func (s *session) runRecovered(doing string, part func() error) {
	s.end(s.relay.o.Recovery.Call("relay", part, "stream", s.number, "doing", doing))
}

// streamStatus returns the gRPC status with which Envoy's stream ends: nil if Envoy ended it or it
// was canceled, otherwise Unavailable.
func streamStatus(cause error) error {
	if errors.Is(cause, errEnvoyClosed) || errors.Is(cause, context.Canceled) {
		return nil
	}
	return status.Error(codes.Unavailable, cause.Error())
}

// recordEnd logs the end of a stream and counts it by the side that ended it; ends by the agent are
// only logged. context.Canceled is an end by Envoy. The reason in metrics is the gRPC code, or
// "ended".
func (r *Relay) recordEnd(cause error) {
	how := "ended"
	if code := status.Code(cause); code != codes.OK && code != codes.Unknown {
		how = code.String()
	}
	switch {
	case errors.Is(cause, errControlPlaneClosed):
		r.o.Metrics.controlPlaneEnds.WithLabelValues(how).Inc()
		r.o.Log.Warn("control plane closed the stream, envoy will reconnect", "cause", cause)
	case errors.Is(cause, errEnvoyClosed), errors.Is(cause, context.Canceled):
		r.o.Metrics.envoyEnds.WithLabelValues(how).Inc()
		r.o.Log.Debug("envoy closed its stream", "cause", cause)
	default:
		r.o.Log.Info("agent closed envoy's stream", "cause", cause)
	}
}

// readRequests reads and handles Envoy's requests until its stream ends or one fails. It never
// returns nil.
func (s *session) readRequests() error {
	for {
		var f frame
		if err := s.down.RecvMsg(&f); err != nil {
			return endError(errEnvoyClosed, err)
		}
		if err := s.handleRequest(f); err != nil {
			return err
		}
	}
}

// endError returns the error that a side ended the stream: which alone for a regular end, otherwise
// which wrapping the cause.
func endError(which, how error) error {
	if errors.Is(how, io.EOF) {
		return which
	}
	return fmt.Errorf("%w: %w", which, how)
}

// handleRequest queues a request of Envoy. After the first one for listeners it queues the agent's
// own requests. It returns an error if the request is malformed or cannot be queued.
func (s *session) handleRequest(f frame) error {
	typeURL, err := s.protocol.requestType(f)
	if err != nil {
		return fmt.Errorf("decode request of envoy: %w", err)
	}
	if err := s.queue.push(request{typeURL, f}); err != nil {
		return err
	}
	if typeURL == api.ListenerType && s.listenersRequested.CompareAndSwap(false, true) {
		return s.sendSubscriptions()
	}
	return nil
}

// sendSubscriptions queues the agent's own requests, with the versions that it has, and the
// workload's health if known. It must follow Envoy's first request, which contains the node. It
// returns an error if one cannot be queued.
func (s *session) sendSubscriptions() error {
	for _, own := range s.relay.o.Subscriptions {
		f, err := s.protocol.newRequest(own.TypeURL, nil, own.knownVersions())
		if err != nil {
			return err
		}
		if err := s.queue.push(request{own.TypeURL, f}); err != nil {
			return err
		}
	}
	return s.sendHealth(s.relay.currentHealth())
}

// sendRequests sends queued requests to the control plane, and counts them, until ctx ends or
// sending fails. It never returns nil. A stream that has ended (io.EOF) is left to readResponses.
func (s *session) sendRequests(ctx context.Context) error {
	for {
		r, ok := s.queue.pop()
		if !ok {
			select {
			case <-s.queue.ready.C():
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		s.relay.o.Metrics.requests.Inc()
		s.relay.o.Log.Debug("request", "type", api.ShortType(r.typeURL), "stream", s.number, "bytes", len(r.body))
		if err := s.up.SendMsg(&r.body); err != nil && !errors.Is(err, io.EOF) { // for EOF, RecvMsg returns the cause
			return endError(errControlPlaneClosed, err)
		}
	}
}

// readResponses reads, counts and handles responses until the control plane's stream ends or one
// fails. It never returns nil.
func (s *session) readResponses(ctx context.Context) error {
	for {
		var f frame
		if err := s.up.RecvMsg(&f); err != nil {
			return endError(errControlPlaneClosed, err)
		}
		s.relay.o.Metrics.responses.Inc()
		if err := s.handleResponse(ctx, f); err != nil {
			return err
		}
	}
}

// handleResponse forwards a response to Envoy. Responses to the agent's own subscriptions and debug
// requests are handled here. With Options.Convert, extensions are queued for conversion; it waits
// until the queue has room or ctx ends. A malformed response is an error.
func (s *session) handleResponse(ctx context.Context, f frame) error {
	typeURL, err := f.stringField(responseType)
	if err != nil {
		return fmt.Errorf("%w: malformed response: %w", errControlPlaneClosed, err)
	}
	s.relay.o.Log.Debug("response", "type", api.ShortType(typeURL), "stream", s.number, "bytes", len(f))
	for _, own := range s.relay.o.Subscriptions {
		if own.TypeURL == typeURL {
			return s.applySubscription(own, f)
		}
	}
	switch {
	case isDebugType(typeURL):
		return s.deliverDebugResponse(typeURL, f)
	case typeURL == api.ExtensionType && s.relay.o.Convert != nil:
		select {
		case s.conversions <- f:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	default:
		return s.sendToEnvoy(f)
	}
}

// sendToEnvoy sends a response to Envoy, one at a time. Its error wraps errEnvoyClosed.
func (s *session) sendToEnvoy(f frame) error {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	if err := s.down.SendMsg(&f); err != nil {
		return endError(errEnvoyClosed, err)
	}
	return nil
}

// applySubscription applies the first resource of a response to the agent's own subscription. It
// queues an ACK, or a NACK if the resource is rejected, which is logged. A response without
// resources is ignored and not acknowledged. A malformed response, and an ACK that cannot be
// queued, are errors.
func (s *session) applySubscription(own *Subscription, f frame) error {
	r, err := s.protocol.parseResponse(f)
	if err != nil {
		return err
	}
	if len(r.resources) == 0 {
		return nil
	}
	var problem *rpcstatus.Status
	if err := own.apply(r.resources[0]); err != nil {
		s.relay.o.Log.Warn("resource for the agent rejected", "type", api.ShortType(r.typeURL), "error", err)
		problem = internalStatus(err)
	}
	return s.sendAck(r, problem)
}

// sendAck queues the ACK of a response, or its NACK if problem is not nil.
func (s *session) sendAck(r *response, problem *rpcstatus.Status) error {
	f, err := s.protocol.newAck(r, problem)
	if err != nil {
		return err
	}
	return s.queue.push(request{r.typeURL, f})
}

// internalStatus returns the error detail of a NACK with the text of err.
func internalStatus(err error) *rpcstatus.Status {
	return &rpcstatus.Status{Code: int32(codes.Internal), Message: err.Error()}
}
