package calltest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
)

// Differences are the differences between a result and what a case expects, one line each.
type Differences []string

// Add appends a difference.
func (d *Differences) Add(format string, args ...any) { *d = append(*d, fmt.Sprintf(format, args...)) }

// Judge returns the differences between the path of a call and the expectations of c, or nil if
// there are none. They are about each ending, the shares of all endings, the verdict, and texts
// (By) that the text of p must contain. Unsupported steps are a difference, too. nameOf returns the
// name of the workload at an address.
func Judge(c *Case, p *explain.Path, nameOf func(address string) string) Differences {
	var d Differences
	if !p.Supported() {
		d.Add("the explanation has unsupported steps")
	}
	text := p.String()
	for _, by := range c.Expect.By {
		if !strings.Contains(text, by) {
			d.Add("no step contains %q", by)
		}
	}
	t := newTotals()
	for _, end := range p.Endings {
		t.add(c, end, nameOf)
		judgeEnding(&d, c, end)
	}
	t.judge(&d, c)
	judgeVerdict(&d, c, p)
	return d
}

// totals are the shares of calls in percent: by workload, status, end and mirror.
type totals struct {
	reached, mirrored, ends map[string]float64
	statuses                map[int]float64
	clusters                map[string]bool
}

// newTotals returns empty totals.
func newTotals() *totals {
	return &totals{
		reached: map[string]float64{}, mirrored: map[string]float64{}, ends: map[string]float64{},
		statuses: map[int]float64{}, clusters: map[string]bool{},
	}
}

// add adds the share of one ending, in percent, to the workloads that answer or receive a mirrored
// request, to the status codes and to the other ends. A forwarded call counts as status 200 if it
// carries HTTP and the case has no Answer. The cluster of the ending is recorded in any case.
func (t *totals) add(c *Case, end explain.Ending, nameOf func(string) string) {
	t.clusters[end.Cluster] = true
	switch end.Kind {
	case explain.Forwarded:
		for _, one := range end.Endpoints {
			t.reached[nameOf(one.Address)] += 100 * end.Share * one.Share
		}
		for _, m := range end.Mirrors {
			for _, one := range m.Endpoints {
				t.mirrored[nameOf(one.Address)] += 100 * end.Share * m.Share * one.Share
			}
		}
		if c.Answer == "" && end.Upstream != nil {
			t.statuses[http.StatusOK] += 100 * end.Share
		}
	case explain.Answered:
		t.statuses[end.Status] += 100 * end.Share
	default:
		t.ends[string(end.Kind)] += 100 * end.Share
	}
}

// judge adds a difference to d for each expectation of c on shares, cluster, status codes and ends
// that the totals do not meet. An expected cluster must be one of the clusters. Shares of statuses
// may differ by 0.1 %, and are not compared for websockets and for cases with an Answer. If an end
// is expected, all calls must end with it.
func (t *totals) judge(d *Differences, c *Case) {
	e := c.Expect
	judgeShares(d, "answered by", e.To, t.reached)
	judgeShares(d, "mirrored to", e.Mirrored, t.mirrored)
	if e.Cluster != "" && !t.clusters[e.Cluster] {
		d.Add("forwarded to cluster %v, want %s", slices.Sorted(maps.Keys(t.clusters)), e.Cluster)
	}
	if want := c.expectedStatuses(); want != nil && c.Answer == "" && c.Protocol != "websocket" {
		for _, status := range slices.Sorted(maps.Keys(want)) {
			if difference := t.statuses[status] - want[status]; difference > 0.1 || difference < -0.1 {
				d.Add("status %d in %.1f%% of calls, want %.1f%%", status, t.statuses[status], want[status])
			}
		}
	}
	if e.Ends != "" && t.ends[e.Ends] != 100 {
		d.Add("ends %v, want %s", t.ends, e.Ends)
	}
}

// expectedStatuses returns the expected percentage of each status code: Expect.Statuses, or else
// 100 for Expect.Status. It returns nil if neither is set, or if Status is 101 (switching
// protocols), which is not checked.
func (c *Case) expectedStatuses() map[int]float64 {
	switch {
	case c.Expect.Statuses != nil:
		return c.Expect.Statuses
	case c.Expect.Status != 0 && c.Expect.Status != http.StatusSwitchingProtocols:
		return map[int]float64{c.Expect.Status: 100}
	default:
		return nil
	}
}

// judgeEnding adds the differences between one ending and the expectations of c for all endings.
// Request headers (Sees) are compared if HTTP is forwarded, response headers (Gets) if the proxy
// answers or forwards, and the body if it answers. For an expected status 504, a forwarded call
// must have a timeout. The delay must reach 90 % of AtLeast, except with Ends, Answer or several in
// To; with Statuses, neither delay nor body is compared.
func judgeEnding(d *Differences, c *Case, end explain.Ending) {
	e := c.Expect
	if end.Kind == explain.Forwarded && end.Upstream != nil {
		for name, want := range e.Sees {
			values := end.Upstream.Values(strings.ToLower(name))
			if name == ":protocol" {
				values = []string{strings.Replace(end.Protocol, "HTTP/2", "HTTP/2.0", 1)}
			}
			JudgeHeader(d, "the request's", name, want, values)
		}
	}
	if e.Status == http.StatusGatewayTimeout && end.Kind == explain.Forwarded && end.Timeout == 0 && end.PerTry == 0 {
		d.Add("the request has no timeout")
	}
	if c.Answer == "" && e.AtLeast > 0 && e.Statuses == nil && e.Ends == "" &&
		end.Delay < time.Duration(e.AtLeast)*9/10 && len(e.To) < 2 {
		d.Add("delayed by %s, want at least %s", end.Delay, time.Duration(e.AtLeast))
	}
	if end.Kind == explain.Answered || end.Kind == explain.Forwarded {
		header := c.responseHeader(end)
		for name, want := range e.Gets {
			JudgeHeader(d, "the response's", name, want, header.Values(name))
		}
	}
	if e.Body != nil && end.Kind == explain.Answered && end.Body != *e.Body && e.Statuses == nil {
		d.Add("the body is %q, want %q", end.Body, *e.Body)
	}
}

// responseHeader returns the known headers of the response: the proxy's own, those of the backend
// if the call is forwarded to it, and the changes of the route.
func (c *Case) responseHeader(end explain.Ending) http.Header {
	list := slices.Clone(end.Header)
	if end.Kind == explain.Forwarded {
		list = append(list, c.BackendHeaders...)
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

// judgeVerdict adds a difference for each ending with another decision or other details than the
// expected verdict, and if another policy allows the call. It adds none if no verdict is expected.
// Denying a call without HTTP means closing its connection. A malformed expectation is a
// difference. Details and policy are compared only if the verdict has them.
func judgeVerdict(d *Differences, c *Case, p *explain.Path) {
	if c.Expect.Verdict == "" {
		return
	}
	want, err := ParseVerdict(c.Expect.Verdict)
	if err != nil {
		d.Add("%v", err)
		return
	}
	if c.Call == "" && want.Decision == Deny {
		want.Decision = Closed
	}
	for _, e := range p.Endings {
		if got := DecisionOf(e); got != want.Decision {
			d.Add("%s (%s), want %s", got, e, c.Expect.Verdict)
		} else if want.Details != "" && e.Details != want.Details {
			d.Add("the details are %q, want %q", e.Details, want.Details)
		}
	}
	if policies := effectivePolicies(p); want.Decision == Allow && want.Policy != "" &&
		!slices.Contains(policies, want.Policy) {
		d.Add("allowed by %v, want %s", policies, want.Policy)
	}
}
