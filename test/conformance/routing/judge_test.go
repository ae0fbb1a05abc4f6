package routing

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/test/conformance/routing/table"
)

// wrong collects what differs.
type wrong []string

func (w *wrong) add(format string, args ...any) { *w = append(*w, fmt.Sprintf(format, args...)) }

// judgePath holds an explanation against what a case expects.
func (s *scene) judgePath(c *table.Case, p *explain.Path) []string {
	var w wrong
	e := c.Expect
	if !p.Supported() {
		w.add("the explanation has unsupported steps")
	}
	text := p.String()
	for _, by := range e.By {
		if !strings.Contains(text, by) {
			w.add("no step says %q", by)
		}
	}
	reached, statuses, ends := map[string]float64{}, map[int]float64{}, map[string]float64{}
	mirrored := map[string]float64{}
	clusters := map[string]bool{}
	for _, end := range p.Endings {
		clusters[end.Cluster] = true
		switch end.Kind {
		case explain.Forwarded:
			for _, one := range end.Endpoints {
				reached[s.table.Instance(one.Address)] += 100 * end.Share * one.Share
			}
			for _, m := range end.Mirrors {
				for _, one := range m.Endpoints {
					mirrored[s.table.Instance(one.Address)] += 100 * end.Share * m.Share * one.Share
				}
			}
			if c.Answer == "" && end.Upstream != nil {
				statuses[http.StatusOK] += 100 * end.Share
			}
		case explain.Answered:
			statuses[end.Status] += 100 * end.Share
		default:
			ends[string(end.Kind)] += 100 * end.Share
		}
		judgeEnding(&w, c, end)
	}
	exactShares(&w, "answered by", e.To, reached)
	exactShares(&w, "mirrored to", e.Mirrored, mirrored)
	if e.Cluster != "" && !clusters[e.Cluster] {
		w.add("goes to %v, want %s", slices.Sorted(maps.Keys(clusters)), e.Cluster)
	}
	if want := expectedStatuses(c); want != nil && c.Answer == "" && c.Protocol != "websocket" {
		for status, share := range want {
			if math.Abs(statuses[status]-share) > 0.1 {
				w.add("status %d in %.1f%% of calls, want %.1f%%", status, statuses[status], share)
			}
		}
	}
	if e.Ends != "" && ends[e.Ends] != 100 {
		w.add("ends %v, want %s", ends, e.Ends)
	}
	return w
}

// expectedStatuses returns the shares of statuses, nil if the case says nothing of them.
func expectedStatuses(c *table.Case) map[int]float64 {
	switch {
	case c.Expect.Statuses != nil:
		return c.Expect.Statuses
	case c.Expect.Status != 0 && c.Expect.Status != http.StatusSwitchingProtocols:
		return map[int]float64{c.Expect.Status: 100}
	default:
		return nil
	}
}

// judgeEnding holds one ending against what the case says of all.
func judgeEnding(w *wrong, c *table.Case, end explain.Ending) {
	e := c.Expect
	if end.Kind == explain.Forwarded && end.Upstream != nil {
		for name, want := range e.Sees {
			values := end.Upstream.Values(strings.ToLower(name))
			if name == ":protocol" {
				values = []string{strings.Replace(end.Protocol, "HTTP/2", "HTTP/2.0", 1)}
			}
			judgeHeader(w, "the request's", name, want, values)
		}
	}
	if e.Status == http.StatusGatewayTimeout && end.Kind == explain.Forwarded && end.Timeout == 0 && end.PerTry == 0 {
		w.add("nothing bounds the request, want a timeout")
	}
	if c.Answer == "" && e.AtLeast > 0 && e.Statuses == nil && e.Ends == "" && end.Delay < time.Duration(e.AtLeast)*9/10 && len(e.To) < 2 {
		w.add("delayed by %s, want at least %s", end.Delay, time.Duration(e.AtLeast))
	}
	if end.Kind == explain.Answered || end.Kind == explain.Forwarded {
		header := answerHeader(c, end)
		for name, want := range e.Gets {
			judgeHeader(w, "the answer's", name, want, header.Values(name))
		}
	}
	if e.Body != nil && end.Kind == explain.Answered && end.Body != *e.Body && e.Statuses == nil {
		w.add("the body is %q, want %q", end.Body, *e.Body)
	}
}

// answerHeader returns the headers of an answer, as far as they are known: what returns it, and what is
// changed on its way.
func answerHeader(c *table.Case, end explain.Ending) http.Header {
	list := slices.Clone(end.Header)
	if end.Kind == explain.Forwarded {
		list = append(list, explain.Header{Name: "x-server-a", Value: "a"}, explain.Header{Name: "x-server-b", Value: "b"})
		if t := c.Headers["content-type"]; len(t) > 0 && t[0] == "application/grpc" {
			list = append(list, explain.Header{Name: "grpc-status", Value: "0"})
		}
		if _, h, ok := strings.Cut(c.Answer, ";"); ok {
			name, value, _ := strings.Cut(strings.Fields(h)[0], "=")
			list = append(list, explain.Header{Name: name, Value: value})
		}
	}
	for _, change := range end.Response {
		list = explain.ApplyChange(list, change)
	}
	h := http.Header{}
	for _, one := range list {
		h.Add(one.Name, one.Value)
	}
	return h
}

// judgeHeader holds a header's values, joined by commas, against one that is wanted; nil: none.
func judgeHeader(w *wrong, whose, name string, want *string, values []string) {
	got := strings.Join(values, ",")
	switch {
	case want == nil && len(values) > 0:
		w.add("%s %s is %q, want none", whose, name, got)
	case want == nil:
	case len(values) == 0:
		w.add("%s %s is not there, want %q", whose, name, *want)
	case len(*want) > 2 && strings.HasPrefix(*want, "/") && strings.HasSuffix(*want, "/") && name != ":path":
		if !regexp.MustCompile((*want)[1 : len(*want)-1]).MatchString(got) {
			w.add("%s %s is %q, want a match of %s", whose, name, got, *want)
		}
	case got != *want:
		w.add("%s %s is %q, want %q", whose, name, got, *want)
	}
}

// is reports whether an instance is meant by a name: itself, or one of its group.
func is(instance, name string) bool {
	return instance == name || strings.HasPrefix(instance, name+"-")
}

// grouped adds up shares of instances under the names that mean them, and the others under their
// own.
func grouped(names table.Shares, of map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for instance, share := range of {
		under := instance
		for name := range names {
			if is(instance, name) {
				under = name
			}
		}
		out[under] += share
	}
	return out
}

// exactShares holds computed shares against those wanted; nil: any.
func exactShares(w *wrong, what string, want table.Shares, got map[string]float64) {
	if want == nil {
		return
	}
	got = grouped(want, got)
	for name, share := range want {
		if math.Abs(got[name]-share) > 0.6 {
			w.add("%s %s in %.1f%% of calls, want %.1f%%", what, name, got[name], share)
		}
	}
	for name, share := range got {
		if _, wanted := want[name]; !wanted && share > 0.1 {
			w.add("%s %s in %.1f%% of calls, want none", what, name, share)
		}
	}
}

// seenShares holds counted shares against those wanted, as far as chance allows.
func seenShares[K comparable](w *wrong, what string, want map[K]float64, got map[K]int, times int) {
	for name, percent := range want {
		p := percent / 100
		share := float64(got[name]) / float64(times)
		// Five standard deviations: one in a million is beyond.
		if slack := 5*math.Sqrt(p*(1-p)/float64(times)) + 1e-9; math.Abs(share-p) > slack {
			w.add("%s %v in %d of %d calls, want %.1f%%", what, name, got[name], times, percent)
		}
	}
	for name, n := range got {
		if _, wanted := want[name]; !wanted {
			w.add("%s %v in %d of %d calls, want none", what, name, n, times)
		}
	}
}
