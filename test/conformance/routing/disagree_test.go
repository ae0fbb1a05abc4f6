package routing

import (
	"math"
	"strings"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/test/conformance/routing/table"
)

// disagreements compares the results of the calls with the explanation.
func (w *world) disagreements(r *run) []string {
	var bad wrong
	endpoints, kinds := map[string]bool{}, map[explain.Kind]float64{}
	answers := map[int]bool{}
	for _, e := range r.path.Endings {
		kinds[e.Kind] += e.Share
		for _, one := range e.Endpoints {
			endpoints[w.table.Instance(one.Address)] = true
		}
		if e.Kind == explain.Answered {
			answers[e.Status] = true
		}
	}
	for _, o := range r.outcomes {
		switch {
		case o.ends != "":
			if kinds[explain.Kind(o.ends)] == 0 && !(o.ends == "closed" && kinds[explain.Answered] > 0 && r.path.Call.Request == nil) {
				bad.Add("disagree: really %s (%s)", o.ends, o.detail)
			}
		case o.seen != nil:
			if name := w.table.Instance(o.seen.Instance); !endpoints[name] {
				bad.Add("disagree: really answered by %s", name)
			}
			w.disagreeOnRequest(&bad, r, o)
		case !answers[o.status] && kinds[explain.Forwarded] < 1e-9:
			bad.Add("disagree: really answered %d by the proxy", o.status)
		}
		if len(bad) > 4 {
			return bad
		}
	}
	w.disagreeOnShares(&bad, r, kinds)
	return bad
}

// disagreeOnRequest compares the request that a backend received with the explained one.
func (w *world) disagreeOnRequest(bad *wrong, r *run, o outcome) {
	if r.path.Call.Request == nil {
		return
	}
	var tries []wrong
	for _, e := range r.path.Endings {
		if e.Upstream == nil || !reaches(w.table, e, o.seen.Instance) {
			continue
		}
		var one wrong
		if o.seen.Path != e.Upstream.Path {
			one.Add("disagree: the path is really %s, not %s", o.seen.Path, e.Upstream.Path)
		}
		if o.seen.Authority != e.Upstream.Authority {
			one.Add("disagree: the host is really %s, not %s", o.seen.Authority, e.Upstream.Authority)
		}
		names := map[string]bool{}
		for _, h := range append(e.Upstream.Header, r.path.Call.Request.Header...) {
			names[h.Name] = true
		}
		for name := range names {
			if hopByHop(name) {
				continue
			}
			got, want := strings.Join(o.seen.Header.Values(name), ","), strings.Join(e.Upstream.Values(name), ",")
			if got != want && !strings.Contains(want, "%") {
				one.Add("disagree: the request's %s is really %q, not %q", name, got, want)
			}
		}
		tries = append(tries, one)
	}
	for _, one := range tries {
		if len(one) == 0 {
			return
		}
	}
	if len(tries) > 0 {
		*bad = append(*bad, tries[0]...)
	}
}

func reaches(t *table.Table, e explain.Ending, instance string) bool {
	for _, one := range e.Endpoints {
		if t.Instance(one.Address) == t.Instance(instance) {
			return true
		}
	}
	return false
}

// hopByHop names hop-by-hop headers and headers that proxies set themselves.
func hopByHop(name string) bool {
	switch name {
	case strings.ToLower(idHeader), "connection", "upgrade", "te", "grpc-timeout", "x-envoy-upstream-rq-timeout-ms", "x-forwarded-proto":
		return true
	}
	return false
}

// disagreeOnShares compares how often the proxy answered itself with the explanation.
func (w *world) disagreeOnShares(bad *wrong, r *run, kinds map[explain.Kind]float64) {
	if r.c.Times < 50 || r.c.Answer != "" {
		return
	}
	answered := 0
	for _, o := range r.outcomes {
		if o.seen == nil && o.status != 0 {
			answered++
		}
	}
	p, n := kinds[explain.Answered], float64(r.c.Times)
	if math.Abs(float64(answered)/n-p) > 5*math.Sqrt(p*(1-p)/n)+1e-9 {
		bad.Add("disagree: the proxy really answered %d of %d calls itself, not %.1f%%", answered, r.c.Times, 100*p)
	}
}
