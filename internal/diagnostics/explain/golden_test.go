package explain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
	"github.com/meshpilot/meshpilot/test/support/xdsdump"
)

// TestExplain checks which upstream receives each call. A line of "calls" is "DIRECTION ADDRESS
// WHAT", where WHAT is "METHOD URL [NAME=VALUE …]", "bytes", "silence" or "tls NAME". A value
// "as=NAMESPACE/ACCOUNT" is not a header, but the caller's identity in mutual TLS.
func TestExplain(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, c *golden.Case) {
		m := fixture.OfCase(t, c)
		v := m.View(fixture.Proxy(t, c.Input("proxy.yaml")))
		r := xdsdump.ExplainResources(translate.NewTable(translate.Options{}), v)
		r.Object = m.Snapshot().Config
		var out bytes.Buffer
		for line := range strings.Lines(string(c.Input("calls"))) {
			path, err := explain.Explain(r, callOf(t, line))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&out, path)
			back := new(explain.Path)
			js, err := json.Marshal(path)
			if err != nil || json.Unmarshal(js, back) != nil || back.String() != path.String() {
				t.Errorf("%s: JSON does not hold all of the path: %s, %v", line, js, err)
			}
		}
		c.Compare(t, "paths", out.Bytes())
	})
}

func callOf(t *testing.T, line string) explain.Call {
	t.Helper()
	words := strings.Fields(line)
	call := explain.Call{Direction: explain.Direction(words[0]), To: netip.MustParseAddrPort(words[1])}
	switch words[2] {
	case "bytes", "silence":
		call.Carries = explain.Carried(words[2])
		return call
	case "tls":
		call.Carries, call.ServerName = explain.TLS, words[3]
		return call
	}
	var headers []string
	for _, w := range words[4:] {
		if who, ok := strings.CutPrefix(w, "as="); ok {
			namespace, account, _ := strings.Cut(who, "/")
			call.Carries, call.ALPN = explain.TLS, []string{"istio-http/1.1", "istio"}
			call.Identity = "spiffe://cluster.local/ns/" + namespace + "/sa/" + account
			continue
		}
		headers = append(headers, strings.Replace(w, "=", ": ", 1))
	}
	var err error
	if call.Request, err = explain.ParseRequest(words[2]+" "+words[3], headers...); err != nil {
		t.Fatal(err)
	}
	return call
}
