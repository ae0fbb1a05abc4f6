package listener

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestUnmatchedConnectionsAreLogged connects to a gateway with a server name that it does not have, and reads the access log.
func TestUnmatchedConnectionsAreLogged(t *testing.T) {
	for _, tc := range []struct {
		name, mesh string
		lines      int
	}{
		{"accessLogFile", "accessLogFile: %s", 1},
		{"disableEnvoyListenerLog", "accessLogFile: %s\ndisableEnvoyListenerLog: true", 0},
		{"provider", `
extensionProviders: [{name: file, envoyFileAccessLog: {path: %s}}]
defaultProviders: {accessLogging: [file]}`, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "log")
			v := fixture.New(t, []byte(`
kind: Gateway
metadata: {name: edge}
spec:
  servers:
  - {port: {number: 8443, name: https, protocol: HTTPS}, hosts: [example.com], tls: {mode: SIMPLE, credentialName: a}}
`), fmt.Appendf(nil, tc.mesh, file)).View(fixture.Proxy(t, []byte("{type: router}")))
			s := &stage{t: t, args: []string{"--file-flush-interval-msec", "10"}}
			e := s.start(listenersOf(t, NewGenerator(), v))
			for _, call := range [][2]string{
				{"at 0.0.0.0_8443 tls b.example.com", "closed"}, // no filter chain
				{"at 0.0.0.0_8443 https anybody", "routes https.8443.https.edge.default"},
			} {
				if answer, err := e.call(call[0], patience); err != nil || answer != call[1] {
					t.Fatalf("%s: %q, %v; want %q", call[0], answer, err, call[1])
				}
			}
			var log string
			serving.Eventually(t, patience, "the request is logged", func() error {
				text, err := os.ReadFile(file)
				if log = string(text); err == nil && !strings.Contains(log, "GET /") {
					err = fmt.Errorf("log %q", text)
				}
				return err
			})
			if n := strings.Count(log, " NR filter_chain_not_found "); n != tc.lines || strings.Count(log, "\n") != tc.lines+1 {
				t.Errorf("%d lines of unmatched connections, want %d, and one of a request:\n%s", n, tc.lines, log)
			}
		})
	}
}
