package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/wasm"
)

const routes = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: public, namespace: istio-system}
spec: {selector: {istio: ingressgateway}, servers: [{port: {number: %[1]d, name: http, protocol: HTTP}, hosts: ["*"]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: all, namespace: istio-system}
spec: {hosts: ["*"], gateways: [public], http: [{directResponse: {status: 200, body: {string: all}}}]}
`

// gateway is a gateway of a mesh that answers requests itself.
type gateway struct {
	*gatewayenv.Edge
	port   int
	client http.Client
}

// says calls the gateway, and returns an error unless the status and the plugins' header are as
// expected.
func (g *gateway) says(r *http.Request, status int, headers ...string) error {
	answer, err := g.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	got := fmt.Sprint(answer.StatusCode, answer.Header.Values("x-wasm"))
	if want := fmt.Sprint(status, headers); got != want {
		return fmt.Errorf("%s, want %s", got, want)
	}
	return nil
}

func (g *gateway) request(t *testing.T) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", g.port), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// eventually waits until the gateway answers so.
func (g *gateway) eventually(t *testing.T, what string, status int, headers ...string) {
	t.Helper()
	gatewayenv.Eventually(t, what, func() error { return g.says(g.request(t), status, headers...) })
}

const (
	// listenersMade returns the number of added and replaced listeners.
	listenersMade = "^listener_manager.listener_(added|modified|in_place_updated)"
	// refusals returns the number of updates that Envoy rejected.
	refusals = "update_rejected$|config_fail$|config_conflict$"
)

// sum returns the sum of Envoy's counters of some names.
func (g *gateway) sum(t *testing.T, names string) (n int) {
	t.Helper()
	r, err := http.Get("http://" + g.Admin + "/stats?format=json&type=Counters&filter=" + url.QueryEscape(names))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var page struct{ Stats []struct{ Value int } }
	if err := json.NewDecoder(r.Body).Decode(&page); err != nil {
		t.Fatal(err)
	}
	for _, s := range page.Stats {
		n += s.Value
	}
	return n
}

// TestWasmPlugin: a module changes answers. An edit of the plugin, including its module's address,
// changes no listener and closes no connection. If a module is unavailable, requests pass or fail
// as the plugin's failStrategy requires. Plugins are ordered, and can be removed.
func TestWasmPlugin(t *testing.T) {
	modules := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/none") {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(wasm.AddsHeader("x-wasm", r.URL.Path[1:]))
	}))
	defer modules.Close()
	g := &gateway{Edge: gatewayenv.Start(t, gatewayenv.Options{}), port: serving.FreePort(t), client: http.Client{Transport: new(http.Transport)}}
	defer g.client.CloseIdleConnections()
	g.Write("routes.yaml", fmt.Sprintf(routes, g.port))
	plugin := func(name, spec string) {
		g.Write(name+".yaml", "apiVersion: extensions.istio.io/v1alpha1\nkind: WasmPlugin\nmetadata: {name: "+name+
			", namespace: istio-system}\nspec: {selector: {matchLabels: {istio: ingressgateway}}, "+strings.ReplaceAll(spec, "URL", modules.URL)+"}\n")
	}
	g.eventually(t, "without plugins", 200)

	plugin("a", "url: URL/one, pluginConfig: {color: red}")
	g.eventually(t, "a plugin", 200, "one")
	before := g.sum(t, listenersMade)
	if before == 0 {
		t.Error("no listeners are counted: the test is not effective")
	}
	plugin("a", "url: URL/two, pluginConfig: {color: blue, sizes: [1, 2]}, vmConfig: {env: [{name: A, value: b}]}")
	g.eventually(t, "an edited plugin", 200, "two")
	var reused bool
	trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
	if err := g.says(g.request(t).WithContext(trace), 200, "two"); err != nil || !reused {
		t.Errorf("after an edit: %v, on the same connection %v", err, reused)
	}
	plugin("a", "url: URL/none, failStrategy: FAIL_OPEN")
	g.eventually(t, "a missing module of a plugin that fails open", 200)
	plugin("a", "url: URL/none2")
	g.eventually(t, "a missing module of a plugin that fails closed", 403)
	plugin("a", "url: URL/three")
	g.eventually(t, "a module that is available again", 200, "three")
	if after := g.sum(t, listenersMade); after != before {
		t.Errorf("%d listeners were made for edits of a plugin", after-before)
	}

	// Answers pass the last one first.
	plugin("b", "url: URL/first, phase: AUTHN")
	g.eventually(t, "a plugin of an earlier phase", 200, "three", "first")
	plugin("c", "url: URL/between, phase: AUTHZ, priority: 7")
	g.eventually(t, "one between the policies", 200, "three", "between", "first")
	plugin("d", "url: URL/elsewhere, match: [{mode: SERVER}]")
	plugin("c", "url: URL/between, phase: AUTHZ, match: [{ports: [{number: 1}]}]")
	g.eventually(t, "one for another port", 200, "three", "first")
	plugin("raw", "url: URL/none, type: NETWORK")
	gatewayenv.Eventually(t, "connections without their plugin", func() error {
		g.client.CloseIdleConnections()
		if err := g.says(g.request(t), 200, "three", "first"); err == nil {
			return errors.New("requests are allowed, want a refusal")
		}
		return nil
	})
	plugin("raw", "url: URL/none, type: NETWORK, failStrategy: FAIL_OPEN")
	g.eventually(t, "connections of a plugin that fails open", 200, "three", "first")
	for _, name := range []string{"a", "b", "c", "d", "raw"} {
		g.Write(name+".yaml", "")
	}
	g.eventually(t, "without plugins again", 200)

	g.Write("lua.yaml", `
apiVersion: extensions.istio.io/v1alpha1
kind: TrafficExtension
metadata: {name: script, namespace: istio-system}
spec: {lua: {inlineCode: "function envoy_on_response(r) r:headers():add('x-wasm', 'lua') end"}}
`)
	g.eventually(t, "a script", 200, "lua")
	if n := g.sum(t, refusals); n != 0 {
		t.Errorf("Envoy refused %d updates", n)
	}
}
