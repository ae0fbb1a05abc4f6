package readapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// LastEvent is where a client continues that connects again.
type LastEvent struct {
	LastEventID string `header:"Last-Event-ID" doc:"The ID of the last event that the client has received. The document is not sent again if it is still the same."`
}

// writeTimeout is how long sending an event to a client may take.
const writeTimeout = 5 * time.Second

// document is one version of what clients follow. Clients share it.
type document struct {
	// id identifies the content, so it is the same at all replicas. It is a positive number.
	id string
	// text is the content as JSON in one line.
	text []byte
}

// newDocument returns the document with this content. It returns an error if the content cannot be
// encoded.
func newDocument(content any) (*document, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encode an event: %w", err)
	}
	return &document{id: strconv.FormatUint(max(1, xxhash.Sum64(text)&math.MaxInt64), 10), text: text}, nil
}

// eventStream sends the versions of a document to a client as server-sent events.
type eventStream struct {
	w http.ResponseWriter
	// name is the type of the events.
	name string
	// known is the ID of the document that the client has, also from an earlier stream, or "".
	known string
	sent  time.Time // zero before the first update
}

// newEventStream returns a stream of events of a type for the client of ctx, whose response keepWriter
// has kept.
func newEventStream(ctx context.Context, name string, last LastEvent) *eventStream {
	w, _ := ctx.Value(writerKey{}).(http.ResponseWriter)
	return &eventStream{w: w, name: name, known: last.LastEventID}
}

var errNoWriter = errors.New("the operation has no writer for events")

// update sends next if it differs from the document that the client has, or the last event was sent
// before a heartbeat. If the client has next already at the first call, only the headers are sent.
// It returns errNoWriter if there is no response to write to, and an error if the client has
// disconnected. Writing may take writeTimeout.
func (e *eventStream) update(next *document, now time.Time) error {
	if e.w == nil {
		return errNoWriter
	}
	first := e.sent.IsZero()
	if next.id == e.known && !first && now.Sub(e.sent) < heartbeat {
		return nil
	}
	response := http.NewResponseController(e.w)
	if first && next.id == e.known {
		e.sent = now
		return response.Flush() // so that the client knows of the connection
	}
	e.known, e.sent = next.id, now
	err := response.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := fmt.Fprintf(e.w, "id: %s\nevent: %s\ndata: %s\n\n", next.id, e.name, next.text); err != nil {
		return err
	}
	return response.Flush()
}

// writerKey is the context key of the writer of a response.
type writerKey struct{}

// keepWriter adds the writer of the response to the context of a request.
func keepWriter(c huma.Context, next func(huma.Context)) {
	_, w := humago.Unwrap(c)
	next(huma.WithValue(c, writerKey{}, w))
}
