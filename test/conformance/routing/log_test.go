package routing

import (
	"bytes"
	"cmp"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/test/conformance/routing/table"
)

const (
	// padSize is what a padding request adds to an access log. Envoy writes when 64 kB have come together, or after 10 s.
	padSize = 6 << 10
	// logTime is the timeout of the wait for lines of the access log.
	logTime = 15 * time.Second
)

// accessLog contains the access log lines of sidecars: the fields of a line, by the caller and the
// id of the request, or by the addresses of a connection without HTTP.
type accessLog map[string]map[string]string

// of returns the line of a call, or nil if it is not logged.
func (l accessLog) of(node string, r *run, o outcome) map[string]string {
	if line := l[node+" "+o.id]; line != nil {
		return line
	}
	return l[node+" "+o.client+" "+r.path.Call.To.String()]
}

// compareLogs holds what proxies have logged of the calls against the explanations.
func (w *world) compareLogs(t *testing.T, runs []*run) {
	t.Helper()
	var logs accessLog
	for deadline := time.Now().Add(logTime); time.Now().Before(deadline); {
		logs = w.flushedLogs(t)
		missing := false
		for _, r := range runs {
			missing = missing || w.missing(r, logs)
		}
		if !missing {
			break // connections may end a moment after their callers have received the answer
		}
	}
	for _, r := range runs {
		w.compareLog(r, logs)
	}
}

func (w *world) missing(r *run, logs accessLog) bool {
	for _, o := range r.outcomes {
		if r.path != nil && mustBeLogged(r, o) && logs.of(r.node(), r, o) == nil {
			return true
		}
	}
	return false
}

// mustBeLogged reports whether a line of a call can be found. Capture may change a client's port if
// the client has two connections from one port to different addresses, so those without HTTP may
// not be identified.
func mustBeLogged(r *run, o outcome) bool { return o.ends == "" && r.path.Call.Request != nil }

// node is the caller whose proxy the call is about.
func (r *run) node() string {
	if r.c.Into != "" {
		return r.c.Into
	}
	return r.c.From
}

// compareLog compares the lines of one case's calls with its explanation: cluster and route must be
// explained ones.
func (w *world) compareLog(r *run, logs accessLog) {
	if r.path == nil {
		return
	}
	clusters, routes := map[string]bool{}, map[string]bool{}
	for _, e := range r.path.Endings {
		clusters[e.Cluster] = true
		routes[cmp.Or(e.Route, "-")] = true
	}
	flags, compareFlags := answeredFlags(r.path.Endings)
	for _, o := range r.outcomes {
		line := logs.of(r.node(), r, o)
		if line == nil {
			if mustBeLogged(r, o) {
				r.wrong.Add("the proxy has logged nothing of %s", o.id)
				return
			}
			continue
		}
		if got := strings.TrimPrefix(line["flags"], "-"); compareFlags && !flags[got] {
			r.wrong.Add("disagree: the proxy really has the response flags %q: %v", got, line)
		}
		if line["to"] == "-" && line["flags"] == "-" || strings.Contains(line["flags"], "FI") {
			continue // a filter has answered: the cluster is the one that the route would have chosen
		}
		if got := strings.TrimSuffix(line["cluster"], "-"); got != "" && !clusters[got] {
			r.wrong.Add("disagree: the proxy really chose the cluster %s: %v", got, line)
		}
		if r.path.Call.Request != nil && line["to"] != "-" && !routes[line["route"]] {
			r.wrong.Add("disagree: the proxy really took the route %s: %v", line["route"], line)
		}
	}
}

// answeredFlags returns the response flags of endings. ok is false if one of them is forwarded, because
// its flags depend on the endpoint.
func answeredFlags(endings []explain.Ending) (flags map[string]bool, ok bool) {
	flags = map[string]bool{}
	for _, e := range endings {
		if e.Kind == explain.Forwarded || e.Kind == explain.Unknown {
			return nil, false
		}
		flags[e.Flags] = true
	}
	return flags, true
}

// flushedLogs returns the access logs of all callers, after padding has made Envoy flush its
// buffers.
func (w *world) flushedLogs(t *testing.T) accessLog {
	t.Helper()
	var group sync.WaitGroup
	for _, c := range w.table.Callers {
		if !c.Bare {
			group.Go(func() { w.flush(t, c) })
		}
	}
	group.Wait()
	logs := accessLog{}
	for _, c := range w.table.Callers {
		if !c.Bare {
			w.readLog(t, c.Name, logs)
		}
	}
	return logs
}

func (w *world) logPath(caller string) string {
	return filepath.Join(w.nodes[caller].Dir(), "proxy", "access.log")
}

// flush fills a caller's access log, by requests that its proxy sends nowhere, until the first of them is written.
func (w *world) flush(t *testing.T, c *table.Caller) {
	client := w.nodes[c.Name].Client(callTime)
	defer client.CloseIdleConnections()
	mark := "mark-" + time.Now().Format(time.RFC3339Nano)
	for id, deadline := mark, time.Now().Add(logTime); time.Now().Before(deadline); id = "padding-" + strings.Repeat("x", padSize) {
		url := "http://127.0.0.1:15080/padding"
		if c.Gateway {
			url = "http://127.0.0.1:8080/padding"
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set(idHeader, id)
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
		}
		if text, err := os.ReadFile(w.logPath(c.Name)); err == nil && bytes.Contains(text, []byte(mark)) {
			return
		}
	}
}

func (w *world) readLog(t *testing.T, caller string, into accessLog) {
	t.Helper()
	text, err := os.ReadFile(w.logPath(caller))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := map[string]string{}
		for part := range strings.FieldsSeq(line) {
			name, value, _ := strings.Cut(part, "=")
			fields[name] = value
		}
		key := fields["id"]
		if key == "-" || key == "" {
			key = fields["from"] + " " + fields["at"] // a port may be used again for another destination
		}
		into[caller+" "+key] = fields
	}
}
