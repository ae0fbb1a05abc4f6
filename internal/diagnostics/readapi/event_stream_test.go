package readapi

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
)

// TestEventStream sends a document once until it differs or a heartbeat is due. A client that connects
// again with the ID of the last event is sent the headers only, unless the document has changed.
func TestEventStream(t *testing.T) {
	var w *httptest.ResponseRecorder
	connect := func(id string) *eventStream {
		w = httptest.NewRecorder()
		return newEventStream(context.WithValue(t.Context(), writerKey{}, w), "overview", LastEvent{id})
	}
	ids := func() (list []string) {
		for line := range strings.Lines(w.Body.String()) {
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				list = append(list, strings.TrimSpace(id))
			}
		}
		return list
	}
	now := time.Unix(100, 0)
	check := func(s *eventStream, proxies, want int) {
		t.Helper()
		next, err := newDocument(Overview{Proxies: proxies})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.update(next, now); err != nil {
			t.Fatal(err)
		}
		if len(ids()) != want {
			t.Errorf("%d events, want %d: %s", len(ids()), want, w.Body)
		}
	}
	s := connect("")
	check(s, 1, 1)
	check(s, 1, 1)
	check(s, 2, 2)
	now = now.Add(heartbeat)
	check(s, 2, 3)
	list := ids()
	if list[0] == list[1] || list[1] != list[2] || list[0] == "" {
		t.Errorf("the IDs are %v", list)
	}
	if text := w.Body.String(); !strings.Contains(text, "\nevent: overview\ndata: {") || !strings.HasSuffix(text, "}\n\n") {
		t.Errorf("the events are %q", text)
	}
	last := list[2]

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

// TestFollowedDocuments makes a document once for all clients of an audience, and again when the state
// or, after an interval, the answers of other replicas may differ.
func TestFollowedDocuments(t *testing.T) {
	var all followedDocuments[string, int, string]
	shop, bank := newAudience(debug.Caller{Namespace: "shop"}, "a", "x"), newAudience(debug.Caller{Namespace: "bank"}, "a", "x")
	now, asked, built, peers := time.Unix(100, 0), 0, 0, "p1"
	update := func(x audience[string], edition int) *document {
		t.Helper()
		d, err := all.entryFor(x).update(now, edition, time.Second,
			func() string { asked++; return peers }, func(peers string) any { built++; return peers })
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	check := func(what string, wantAsked, wantBuilt int) {
		t.Helper()
		if asked != wantAsked || built != wantBuilt {
			t.Errorf("%s: other replicas were asked %d times and %d documents made, want %d and %d", what, asked, built, wantAsked, wantBuilt)
		}
	}
	first := update(shop, 1)
	if update(shop, 1) != first {
		t.Error("the second client has another document")
	}
	check("two clients", 1, 1)
	update(shop, 2)
	check("another edition", 1, 2)
	now, peers = now.Add(time.Second), "p2"
	if d := update(shop, 2); string(d.text) != `"p2"` || d.id == first.id {
		t.Errorf("after the interval the document is %s", d.text)
	}
	check("after the interval", 2, 3)
	update(bank, 2)
	update(newAudience(debug.Caller{Namespace: "shop"}, "b", "x"), 2)
	update(newAudience(debug.Caller{Namespace: "shop"}, "a", "y"), 2)
	check("other audiences", 5, 6)
	for i := range 2 * maxAudiences {
		all.entryFor(newAudience(debug.Caller{}, "", string(rune(i))))
	}
	if n := len(all.kept); n > maxAudiences {
		t.Errorf("%d documents are kept", n)
	}
}
