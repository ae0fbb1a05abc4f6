package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/calltest"
	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
)

// liveEvaluator returns the function that requests the path of a case's call from the control plane
// and compares it with the case's expectations. Errors of a case are part of its Result.
// liveEvaluator itself returns an error if the endpoints, which name the workloads, cannot be read.
func (f *testFlagValues) liveEvaluator(c *cobra.Command) (func(*calltest.Case) *calltest.Result, error) {
	nameOf, err := f.workloadNames(c)
	if err != nil {
		return nil, err
	}
	return func(one *calltest.Case) *calltest.Result {
		r := &calltest.Result{Case: one}
		query, err := liveQuery(one, f.proxyName)
		if err != nil {
			r.Err = err
			return r
		}
		path := new(explain.Path)
		if r.Err = f.readPage(c, "explain", query, path); r.Err != nil {
			return r
		}
		r.Path = path
		if r.Err = f.addCallees(c, path); r.Err == nil {
			r.Differences = calltest.Judge(one, path, nameOf)
		}
		return r
	}, nil
}

// addCallees replaces each endpoint of a path whose sidecar does not accept the call by the endings
// at that sidecar (calltest.AddCallees). A sidecar may be connected to another replica than the
// caller; the first error of reading its path is returned. It does nothing for an inbound call. In
// any case it clears the calls that endpoints receive.
func (f *testFlagValues) addCallees(c *cobra.Command, path *explain.Path) error {
	defer path.ClearReceived()
	if path.Call.Direction == explain.Inbound {
		return nil
	}
	return calltest.AddCallees(path, func(_ explain.Ending, one explain.Endpoint) (*explain.Path, error) {
		return f.calleePath(c, one)
	})
}

// workloadNames returns a function that returns the name of the workload at "HOST:PORT", by the
// endpoints of the control plane when workloadNames was called. The port is ignored. The function
// returns the text itself if no workload is known there. If the endpoints cannot be read,
// workloadNames returns an error.
func (f *testFlagValues) workloadNames(c *cobra.Command) (func(string) string, error) {
	all, err := f.readEndpoints(c)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, p := range all {
		for _, e := range p.Endpoints {
			for _, a := range e.Addresses {
				names[a] = e.WorkloadName
			}
		}
	}
	return func(address string) string {
		if host, _, err := net.SplitHostPort(address); err == nil && names[host] != "" {
			return names[host]
		}
		return address
	}, nil
}

// liveQuery returns the query of the debug page explain for a case, with "callees" always set. A
// case without a call has the URL tls://NAME:PORT if it sends "tls NAME", otherwise tcp:// and its
// destination. It returns an error for via, absolute and silence, which the page does not have, a
// malformed destination, or a claim without a JSON form. proxyName completes the proxy's name.
func liveQuery(c *calltest.Case, proxyName func(string) string) (url.Values, error) {
	if c.Via != "" || c.Absolute || c.Send != "" && !strings.HasPrefix(c.Send, "tls ") && c.Send != "bytes" {
		return nil, errors.New("via, absolute and silence are evaluated with --filename only")
	}
	q := url.Values{"proxyID": {proxyName(c.From + c.Into)}, "header": c.Lines()}
	method, target, _ := strings.Cut(c.Call, " ")
	q.Set("url", target)
	set := map[string]string{"method": method, "principal": c.As, "authorizer": c.Authorizer}
	if c.Protocol != "http/1.1" {
		set["protocol"] = c.Protocol
	}
	if c.Address.IsValid() {
		set["from"] = c.Address.String()
	}
	words := strings.Fields(c.Send)
	switch {
	case len(words) > 1 && c.Call == "":
		_, port, err := c.Destination()
		if err != nil {
			return nil, err
		}
		q.Set("url", fmt.Sprintf("tls://%s:%d", words[1], port))
	case c.Call == "":
		q.Set("url", "tcp://"+c.To)
	}
	for name, value := range set {
		if value != "" {
			q.Set(name, value)
		}
	}
	if c.Host != "" {
		q.Add("header", "host: "+c.Host)
	}
	for name, value := range c.Claims {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		q.Add("claim", name+"="+strings.Trim(string(text), `"`))
	}
	if c.Into != "" {
		q.Set("inbound", "")
	}
	q.Set("callees", "")
	return q, nil
}
