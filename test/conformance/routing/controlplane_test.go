package routing

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
)

// askControlPlane requests the explanation of a case of each topic from the running control plane, which uses the resources that it
// sent to the proxies. It must be equal to the explanation of the configuration that the test generated, except for notes: only the
// control plane knows the objects that are not used.
func (w *world) askControlPlane(t *testing.T, runs []*run) {
	t.Helper()
	client := w.mesh.ControlPlane.Node.Client(callTime)
	defer client.CloseIdleConnections()
	asked := map[string]bool{}
	for _, r := range runs {
		c := r.c
		if asked[c.Topic.Name] || r.path == nil || r.path.Call.Request == nil || r.path.Call.Direction != explain.Outbound {
			continue
		}
		asked[c.Topic.Name] = true
		request := r.path.Call.Request
		query := url.Values{
			"proxyID": {c.From + "." + w.table.Caller(c.From).Namespace}, "method": {request.Method}, "protocol": {c.Protocol},
			"url": {request.Scheme + "://" + request.Authority + request.Path}, "to": {r.path.Call.To.String()}, "text": {""},
		}
		for _, h := range request.Header {
			query.Add("header", h.Name+": "+h.Value)
		}
		resp, err := client.Get("http://127.0.0.1:8080/debug/explain?" + query.Encode())
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: the control plane explains nothing: %s %s %v", c.ID(), resp.Status, body, err)
			continue
		}
		if diff := cmp.Diff(withoutNotes(r.path.String()), withoutNotes(string(body))); diff != "" {
			t.Errorf("%s: the control plane explains it otherwise (-here +there):\n%s", c.ID(), diff)
		}
	}
	if len(asked) == 0 {
		t.Error("the control plane was asked nothing")
	}
}

// withoutNotes returns the text of an explanation without its notes.
func withoutNotes(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "note: ") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
