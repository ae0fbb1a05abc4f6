package readapi

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/danielgtaylor/huma/v2/sse"
)

// LastEvent is where a client continues that connects again.
type LastEvent struct {
	LastEventID string `header:"Last-Event-ID" doc:"The ID of the last event that the client has received. The document is not sent again if it is still the same."`
}

// eventStream sends the versions of a document to a client as server-sent events. The ID of an event
// identifies the content, so it has the same meaning at all replicas.
type eventStream[T any] struct {
	send sse.Sender
	// flush sends the headers of the answer.
	flush func() error
	// known is the ID of the document that the client has from an earlier stream, or "".
	known string

	last T
	sent time.Time // zero before the first update
}

// newEventStream returns a stream for the client of ctx.
func newEventStream[T any](ctx context.Context, last LastEvent, send sse.Sender) *eventStream[T] {
	e := &eventStream[T]{send: send, known: last.LastEventID, flush: func() error { return nil }}
	if w, ok := ctx.Value(writerKey{}).(http.ResponseWriter); ok {
		e.flush = http.NewResponseController(w).Flush
	}
	return e
}

// update sends next if it differs from the document that the client has, or the last event was sent
// before a heartbeat. It returns an error if the client has disconnected.
func (e *eventStream[T]) update(next T, now time.Time) error {
	first := e.sent.IsZero()
	if !first && now.Sub(e.sent) < heartbeat && reflect.DeepEqual(next, e.last) {
		return nil
	}
	id := documentID(next)
	e.last, e.sent = next, now
	if first && strconv.Itoa(id) == e.known {
		return e.flush() // so that the client knows of the connection
	}
	return e.send(sse.Message{ID: id, Data: next})
}

// documentID returns a positive number that differs for different documents.
func documentID(document any) int {
	text, err := json.Marshal(document)
	if err != nil {
		return 0 // no ID; sending it reports the error
	}
	return max(1, int(xxhash.Sum64(text)&math.MaxInt64)) //nolint:gosec // fits
}

// writerKey is the context key of the writer of a response.
type writerKey struct{}

// keepWriter adds the writer of the response to the context of a request.
func keepWriter(c huma.Context, next func(huma.Context)) {
	_, w := humago.Unwrap(c)
	next(huma.WithValue(c, writerKey{}, w))
}
