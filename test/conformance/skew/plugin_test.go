package skew

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/wasm"
)

const (
	// pluginHeader is the header that the plugin adds to answers.
	pluginHeader = "X-Wasm"
	// controlPlaneAddress is the address of the control plane's machine.
	controlPlaneAddress = "10.66.0.2"
)

// plugin configures a Wasm plugin of the servers. An Envoy with a runtime runs it. An Envoy without
// one is sent a filter that applies failStrategy, which a Problem reports; it would reject the
// module, and answer each request with 500.
func (w *world) plugin(t *testing.T) {
	t.Helper()
	module := w.serveModule(t)
	info, err := w.envoyOf(t.Context(), "server-a", "/server_info")
	if err != nil {
		t.Fatal(err)
	}
	runs := strings.Contains(info, `"envoy.wasm.runtime.v8"`)
	put := func(strategy string) {
		w.writeConfig(t, "plugin", fmt.Sprintf(`
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: answers, namespace: default}
spec: {selector: {matchLabels: {app: server}}, url: "%s", failStrategy: %s}
`, module, strategy))
	}
	awaitPlugin := func(what string, status int, header string) {
		t.Helper()
		serving.Eventually(t, effectTime, what, func() error {
			got, headers, err := w.get(t.Context(), "/")
			if err == nil && (got != status || headers.Get(pluginHeader) != header) {
				err = fmt.Errorf("status %d, %s: %q", got, pluginHeader, headers.Get(pluginHeader))
			}
			return err
		})
	}
	put("FAIL_CLOSE")
	if runs {
		awaitPlugin("a plugin runs", http.StatusOK, "yes")
	} else {
		awaitPlugin("without a runtime, requests are refused", http.StatusForbidden, "")
		if n := w.pluginProblems(t); n != 1 {
			t.Errorf("%d Problems of the plugin, want 1", n)
		}
		put("FAIL_OPEN")
		awaitPlugin("without a runtime, requests pass if the plugin fails open", http.StatusOK, "")
	}
	w.writeConfig(t, "plugin", "")
	awaitPlugin("the plugin is removed", http.StatusOK, "")
}

// serveModule serves a module that adds a header to answers beside the control plane. It returns the
// URL of the module.
func (w *world) serveModule(t *testing.T) string {
	t.Helper()
	l, err := w.ControlPlane.Node.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: effectTime, Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = rw.Write(wasm.AddsHeader(strings.ToLower(pluginHeader), "yes"))
	})}
	go func() { _ = s.Serve(l) }() // until it is closed
	t.Cleanup(func() { s.Close() })
	return fmt.Sprintf("http://%s:%d/module.wasm", controlPlaneAddress, l.Addr().(*net.TCPAddr).Port)
}

// pluginProblems returns the number of Problems that name the plugin and the missing runtime.
func (w *world) pluginProblems(t *testing.T) (n int) {
	t.Helper()
	var problems []struct{ Kind, Name, Reason string }
	w.ask(t, "/debug/problemz", &problems)
	for _, p := range problems {
		if p.Kind == "WasmPlugin" && p.Name == "answers" && strings.Contains(p.Reason, "envoy.wasm.runtime.v8") {
			n++
		}
	}
	return n
}
