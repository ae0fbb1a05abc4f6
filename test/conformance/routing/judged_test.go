package routing

import (
	"net/http"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/calltest"
	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/test/conformance/routing/backend"
	"github.com/meshpilot/meshpilot/test/conformance/routing/table"
)

// find returns a case by its full name.
func (s *scene) find(t *testing.T, id string) *table.Case {
	t.Helper()
	for _, topic := range s.table.Topics {
		for _, c := range topic.Cases {
			if c.ID() == id {
				return c
			}
		}
	}
	t.Fatalf("no case %s", id)
	return nil
}

func text(s string) *string { return &s }

// TestWrongExpectationsFail: cases that are right are wrong as soon as they expect something else.
// Without this, a table of cases that all pass would prove nothing.
func TestWrongExpectationsFail(t *testing.T) {
	s := newScene(t)
	for _, tc := range []struct {
		id     string
		change func(*calltest.Expect)
	}{
		{"match_uri/exact", func(e *calltest.Expect) { e.To = calltest.Shares{"uri-v2": 100} }},
		{"match_uri/exact", func(e *calltest.Expect) { e.Cluster = "PassthroughCluster" }},
		{"match_uri/exact", func(e *calltest.Expect) { e.Status = 404 }},
		{"match_uri/exact", func(e *calltest.Expect) { e.By = calltest.Values{"VirtualService/shop/uri spec.http[9]"} }},
		{"match_uri/exact", func(e *calltest.Expect) { e.Ends = "closed" }},
		{"match_uri/exact", func(e *calltest.Expect) { e.Mirrored = calltest.Shares{"uri-v2": 100} }},
		{"weights/two", func(e *calltest.Expect) { e.To = calltest.Shares{"wgt-v1": 74, "wgt-v2": 26} }},
		{"weights/two", func(e *calltest.Expect) { e.To = calltest.Shares{"wgt-v1": 75} }},
		{"fault/half of them", func(e *calltest.Expect) { e.Statuses = map[int]float64{200: 51, 500: 49} }},
		{"fault/delay", func(e *calltest.Expect) { e.AtLeast = calltest.Duration(time.Second) }},
		{"redirect/path", func(e *calltest.Expect) { e.Gets = map[string]*string{"location": text("http://red/other")} }},
		{"redirect/path", func(e *calltest.Expect) { e.Gets = map[string]*string{"location": nil} }},
		{"direct_response/text", func(e *calltest.Expect) { e.Body = text("a kettle") }},
		{"rewrite/prefix", func(e *calltest.Expect) { e.Sees = map[string]*string{":path": text("/old/a/b")} }},
		{"header_ops/a rule removes", func(e *calltest.Expect) { e.Sees = map[string]*string{"x-gone": text("mine")} }},
		{"tcp_routes/a subset that nobody has", func(e *calltest.Expect) { e.Ends = "waiting" }},
		{"timeout_retry/nothing said is no bound", func(e *calltest.Expect) { e.Status = 504 }},
	} {
		c := *s.find(t, tc.id)
		path, err := s.explain(&c)
		if err != nil {
			t.Fatal(err)
		}
		if found := s.judgePath(&c, path); len(found) > 0 {
			t.Errorf("%s has differences without a change: %q", tc.id, found)
		}
		tc.change(&c.Expect)
		if found := s.judgePath(&c, path); len(found) == 0 {
			t.Errorf("%s: %+v is not found to be wrong", tc.id, c.Expect)
		}
	}
}

// TestDisagreementsAreFound: real results are compared with the explanation, whatever the case
// expects.
func TestDisagreementsAreFound(t *testing.T) {
	w := &world{scene: newScene(t), memory: backend.NewMemory()}
	c := w.find(t, "rewrite/prefix")
	path, err := w.explain(c)
	if err != nil {
		t.Fatal(err)
	}
	right := func() *backend.Sighting {
		return &backend.Sighting{Instance: w.table.Instances["rew-v1-0"].String(), Path: "/new/a/b", Authority: "rew", Header: http.Header{}}
	}
	if found := w.disagreements(&run{c: c, path: path, outcomes: []outcome{{status: 200, seen: right()}}}); len(found) > 0 {
		t.Fatalf("disagreements reported although the results agree: %q", found)
	}
	changed := func(change func(*backend.Sighting)) outcome {
		s := right()
		change(s)
		return outcome{status: 200, seen: s}
	}
	for name, o := range map[string]outcome{
		"path":     changed(func(s *backend.Sighting) { s.Path = "/old/a/b" }),
		"host":     changed(func(s *backend.Sighting) { s.Authority = "other" }),
		"instance": changed(func(s *backend.Sighting) { s.Instance = w.table.Instances["uri-v1-0"].String() }),
		"end":      broken(http.ErrServerClosed),
	} {
		if found := w.disagreements(&run{c: c, path: path, outcomes: []outcome{o}}); len(found) == 0 {
			t.Errorf("another %s is not found", name)
		}
	}
	r := &run{c: c, path: path, outcomes: []outcome{{id: "x", status: 200, seen: right()}}}
	w.compareLog(r, accessLog{"web x": {"cluster": "outbound|80||other", "route": "other", "to": "10.0.0.1:80", "flags": "-"}})
	if len(r.wrong) != 2 {
		t.Errorf("of another cluster and route in the log only this is found: %q", r.wrong)
	}
	answered := &explain.Path{Call: path.Call, Endings: []explain.Ending{{Kind: explain.Answered, Status: 404, Flags: "NR"}}}
	r = &run{c: c, path: answered, outcomes: []outcome{{id: "x", status: 404}}}
	w.compareLog(r, accessLog{"web x": {"cluster": "-", "route": "-", "to": "-", "flags": "NC"}})
	if len(r.wrong) != 1 {
		t.Errorf("of other response flags in the log this is found: %q", r.wrong)
	}
	if path.Endings[0].Kind != explain.Forwarded {
		t.Errorf("the case shows nothing: %s", path)
	}
}
