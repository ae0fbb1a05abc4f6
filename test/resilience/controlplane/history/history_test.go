package history_test

import (
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/resilience/controlplane/history"
)

// TestCheck returns the checker one record of each kind of fault, and one without.
func TestCheck(t *testing.T) {
	const bound = 10 * time.Second
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	sees := func(proxy string, generation, seconds int) history.Observation {
		return history.Observation{Proxy: proxy, Object: "a", Generation: generation, At: at(seconds)}
	}
	for name, tt := range map[string]struct {
		views                    []history.Observation
		unseen, reordered, mixed string
	}{
		"every operation is seen": {views: []history.Observation{sees("p", 1, 1), sees("p", 2, 6), sees("q", 1, 1),
			sees("q", 2, 7)}},
		"a later generation is enough": {views: []history.Observation{sees("p", 2, 6), sees("q", 2, 7)}},
		"seen before it was complete":  {views: []history.Observation{sees("p", 1, -1), sees("p", 2, 4), sees("q", 2, 4)}},
		"recorded out of order":        {views: []history.Observation{sees("p", 2, 6), sees("p", 1, 1), sees("q", 2, 7)}},
		"the last one is lost": {views: []history.Observation{sees("p", 2, 6), sees("q", 1, 1)},
			unseen: "q never saw generation 2 of a"},
		"a proxy that sees nothing": {views: []history.Observation{sees("p", 2, 6)},
			unseen: "q never saw generation 1 of a"},
		"one comes too late": {views: []history.Observation{sees("p", 1, 1), sees("p", 2, 16), sees("q", 2, 7)},
			unseen: "p saw generation 2 of a after 11s"},
		"one goes back": {views: []history.Observation{sees("p", 2, 6), sees("p", 1, 7), sees("q", 2, 7)},
			reordered: "p was sent generation 1 of a 1s after generation 2"},
		"a state does not hang together": {views: []history.Observation{sees("p", 2, 6), sees("q", 2, 7)},
			mixed: "route without a cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			l := &history.Log{}
			l.Join("p")
			l.Join("q")
			l.Operate(history.Operation{Object: "a", Generation: 1, At: at(0)})
			l.Operate(history.Operation{Object: "a", Generation: 2, At: at(5)})
			for _, v := range tt.views {
				l.Observe(v)
			}
			if tt.mixed != "" {
				l.Mix(history.Mixture{Proxy: "p", What: tt.mixed, At: at(3)})
			}
			r := l.Check(bound)
			for kind, found := range map[string]struct {
				want string
				got  []string
			}{"unseen": {tt.unseen, r.Unseen}, "reordered": {tt.reordered, r.Reordered}, "mixed": {tt.mixed, r.Mixed}} {
				if text := strings.Join(found.got, "\n"); !strings.Contains(text, found.want) || found.want == "" && text != "" {
					t.Errorf("%s: %q, want %q", kind, text, found.want)
				}
			}
			if r.Failed() != (tt.unseen+tt.reordered+tt.mixed != "") {
				t.Errorf("failed: %v", r.Failed())
			}
		})
	}
}

func TestReached(t *testing.T) {
	l := &history.Log{}
	l.Join("p")
	l.Operate(history.Operation{Object: "a", Generation: 2})
	l.Observe(history.Observation{Proxy: "p", Object: "a", Generation: 1})
	if l.Reached() == nil {
		t.Error("a proxy that is behind: no error")
	}
	l.Observe(history.Observation{Proxy: "p", Object: "a", Generation: 2})
	if err := l.Reached(); err != nil {
		t.Error(err)
	}
}
