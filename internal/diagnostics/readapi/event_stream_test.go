package readapi

import (
	"context"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2/sse"
)

// TestEventStream sends a document once until it differs or a heartbeat is due. A client that connects
// again with the ID of the last event is sent the headers only, unless the document has changed.
func TestEventStream(t *testing.T) {
	var events []sse.Message
	send := func(m sse.Message) error {
		events = append(events, m)
		return nil
	}
	w := httptest.NewRecorder()
	connect := func(id string) *eventStream[Overview] {
		w, events = httptest.NewRecorder(), nil
		return newEventStream[Overview](context.WithValue(t.Context(), writerKey{}, w), LastEvent{id}, send)
	}
	now := time.Unix(100, 0)
	check := func(s *eventStream[Overview], proxies, want int) {
		t.Helper()
		if err := s.update(Overview{Proxies: proxies}, now); err != nil {
			t.Fatal(err)
		}
		if len(events) != want {
			t.Errorf("%d events, want %d: %+v", len(events), want, events)
		}
	}
	s := connect("")
	check(s, 1, 1)
	check(s, 1, 1)
	check(s, 2, 2)
	now = now.Add(heartbeat)
	check(s, 2, 3)
	if events[0].ID == events[1].ID || events[1].ID != events[2].ID || events[0].ID <= 0 {
		t.Errorf("the IDs are %d, %d, %d", events[0].ID, events[1].ID, events[2].ID)
	}
	last := strconv.Itoa(events[2].ID)

	s = connect(last)
	check(s, 2, 0)
	if !w.Flushed {
		t.Error("the client does not see that it is connected")
	}
	check(s, 3, 1)
	s = connect(last)
	check(s, 3, 1)
	s = connect("nonsense")
	check(s, 2, 1)
}
