package routing

import (
	"fmt"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/calltest"
	"github.com/meshpilot/meshpilot/test/conformance/routing/backend"
	"github.com/meshpilot/meshpilot/test/conformance/routing/table"
)

// clockSlack is how early Envoy's timers may fire: they use the time at which its event loop last
// read the clock.
const clockSlack = 25 * time.Millisecond

// judgeOutcomes compares the results of the calls with the expectation of the case.
func (w *world) judgeOutcomes(r *run) []string {
	var bad wrong
	e := r.c.Expect
	reached, mirrored, statuses := map[string]int{}, map[string]int{}, map[int]int{}
	for _, o := range r.outcomes {
		own, copies := w.sightings(r, o)
		if o.seen != nil {
			reached[nameOf(e.To, w.table.Instance(o.seen.Instance))]++
		}
		for _, c := range copies {
			mirrored[nameOf(e.Mirrored, w.table.Instance(c.Instance))]++
		}
		statuses[o.status]++
		if e.Attempts > 0 && len(own) != e.Attempts {
			bad.Add("the backends saw it %d times, want %d", len(own), e.Attempts)
		}
		judgeOutcome(&bad, r.c, o)
		if len(bad) > 8 {
			break // more of the same
		}
	}
	switch {
	case e.Sticky:
		if len(reached) != 1 {
			bad.Add("answered by %v, want always the same", reached)
		}
	case e.To != nil:
		seenShares(&bad, "answered by", e.To, reached, r.c.Times)
	}
	if e.Mirrored != nil {
		seenShares(&bad, "mirrored to", e.Mirrored, mirrored, r.c.Times)
	}
	if e.Statuses != nil {
		seenShares(&bad, "status", e.Statuses, statuses, r.c.Times)
	}
	return bad
}

// nameOf returns the name by which an instance is expected.
func nameOf(names calltest.Shares, instance string) string {
	for name := range names {
		if calltest.Means(name, instance) {
			return name
		}
	}
	return instance
}

// judgeOutcome compares one outcome with the part of the expectation that applies to all calls.
func judgeOutcome(bad *wrong, c *table.Case, o outcome) {
	e := c.Expect
	if e.Ends != "" && o.ends != e.Ends {
		bad.Add("ends %q (%s), want %s", o.ends, o, e.Ends)
	}
	if e.Ends == "" && o.ends != "" {
		bad.Add("no answer: %s", o)
		return
	}
	if e.Status != 0 && o.status != e.Status && c.Call != "" {
		bad.Add("status %d, want %d: %s", o.status, e.Status, o)
	}
	if o.seen != nil {
		for name, want := range e.Sees {
			calltest.JudgeHeader(bad, "the request's", name, want, sawHeader(o.seen, name))
		}
	} else if len(e.Sees) > 0 {
		bad.Add("no backend reports the request: %s", o)
	}
	for name, want := range e.Gets {
		calltest.JudgeHeader(bad, "the answer's", name, want, o.header.Values(name))
	}
	if e.Body != nil && e.Statuses == nil && o.body != *e.Body {
		bad.Add("the body is %q, want %q", o.body, *e.Body)
	}
	if least := time.Duration(e.AtLeast); o.took < least-clockSlack && e.Statuses == nil {
		bad.Add("took %s, want at least %s", o.took, least)
	}
	if most := time.Duration(e.AtMost); most > 0 && o.took > most {
		bad.Add("took %s, want at most %s", o.took, most)
	}
}

func sawHeader(s *backend.Sighting, name string) []string {
	switch strings.ToLower(name) {
	case ":path":
		return []string{s.Path}
	case ":method":
		return []string{s.Method}
	case ":authority", "host":
		return []string{s.Authority}
	case ":protocol":
		return []string{s.Protocol}
	case ":server-name":
		return []string{s.ServerName}
	case ":tls":
		return []string{fmt.Sprint(s.TLS)}
	}
	return s.Header.Values(name)
}
