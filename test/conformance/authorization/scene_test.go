package authorization

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/xdsdump"
)

// scene is a mesh with calls in it.
type scene struct {
	name       string
	meshConfig []byte
	objects    []byte
	workloads  []*workload
	cases      []*testCase

	resources map[string]*explain.Resources // by workload
}

// logFormat is the format of access logs: the key of a call, why it was denied, and its dynamic
// metadata.
const logFormat = "%REQ(X-CASE-ID)%\t%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%>%DOWNSTREAM_LOCAL_ADDRESS%\t%RESPONSE_CODE_DETAILS%\t%CONNECTION_TERMINATION_DETAILS%\t" +
	"%DYNAMIC_METADATA(envoy.filters.http.rbac)%\t%DYNAMIC_METADATA(envoy.filters.network.rbac)%\t%DYNAMIC_METADATA(envoy.common:access_log_hint)%\n"

// generate returns the configuration of all workloads.
func (s *scene) generate(t testing.TB, accessLog string) {
	t.Helper()
	objects := bytes.Join([][]byte{s.objects, s.pods(t)}, []byte("\n---\n"))
	valid(t, s.name, objects)
	m := fixture.New(t, objects, s.settings(t, accessLog))
	generators := translate.NewTable(translate.Options{})
	s.resources = map[string]*explain.Resources{}
	for _, w := range s.workloads {
		kind := "sidecar"
		if w.Gateway {
			kind = "router"
		}
		text, err := json.Marshal(map[string]any{
			"type": kind, "name": w.Name, "namespace": w.Namespace, "addresses": []netip.Addr{w.Address}, "labels": w.Labels, "identity": true,
			"proxyConfig": proxyConfig(t, w),
		})
		if err != nil {
			t.Fatal(err)
		}
		r := xdsdump.ExplainResources(generators, m.View(fixture.Proxy(t, text)))
		r.Object = m.Snapshot().Config
		s.resources[w.Name] = r
	}
}

// valid fails the test if a scene has objects that no API server would accept.
func valid(t testing.TB, scene string, objects []byte) {
	t.Helper()
	list, err := fixture.Decode(objects)
	if err != nil {
		t.Fatalf("%s: %v", scene, err)
	}
	for _, c := range list {
		for _, p := range config.Validate(c) {
			if p.Severity != config.Warning {
				t.Errorf("%s: %v", scene, p)
			}
		}
	}
}

func proxyConfig(t testing.TB, w *workload) json.RawMessage {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(w.ProxyConfig))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// settings is the mesh configuration with the access log in it.
func (s *scene) settings(t testing.TB, accessLog string) []byte {
	t.Helper()
	settings := map[string]any{}
	if err := yaml.Unmarshal(s.meshConfig, &settings); err != nil {
		t.Fatal(err)
	}
	settings["accessLogFile"], settings["accessLogFormat"] = accessLog, logFormat
	text, err := yaml.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// pods are the workloads' own.
func (s *scene) pods(t testing.TB) []byte {
	t.Helper()
	var list [][]byte
	for _, w := range s.workloads {
		text, err := yaml.Marshal(map[string]any{
			"kind": "Pod", "apiVersion": "v1", "metadata": map[string]any{"name": w.Name, "namespace": w.Namespace, "labels": w.Labels},
			"status": map[string]any{"phase": "Running", "podIP": w.Address},
		})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, text)
	}
	return bytes.Join(list, []byte("\n---\n"))
}

// call converts a case to a call of package explain.
func (c *testCase) call(t testing.TB, tokens *tokens) explain.Call {
	t.Helper()
	w, port := c.target(t)
	call := explain.Call{
		Direction: explain.Inbound, To: netip.AddrPortFrom(w.Address, port), From: netip.AddrPortFrom(c.from(), 40000),
		Identity: c.identity(), ServerName: c.SNI, At: tokens.now, Authorizers: explain.Allows,
	}
	if w.Gateway {
		call.Direction = explain.Direct
	}
	if c.encrypted() {
		call.Carries, call.ALPN = explain.TLS, c.offers()
	} else if c.HTTP2 || c.GRPC {
		call.Carries = explain.HTTP2
	}
	if c.Answer != "" {
		call.Authorizers = explain.Answer(c.Answer)
	}
	if c.Call == "" {
		return call
	}
	method, path, host := c.request()
	call.Request = &explain.Request{Method: method, Scheme: "http", Authority: host, Path: path}
	if rest, absolute := strings.CutPrefix(path, "http://"); absolute {
		host, path, _ := strings.Cut(rest, "/")
		call.Request.Authority, call.Request.Path = host, "/"+path
	}
	for _, line := range c.lines(tokens) {
		name, value, _ := strings.Cut(line, ":")
		call.Request.Header = append(call.Request.Header, explain.Header{Name: strings.ToLower(name), Value: strings.TrimSpace(value)})
	}
	return call
}

// from returns the caller's address. If the case has none, no policy matches the address.
func (c *testCase) from() netip.Addr {
	if c.From.IsValid() {
		return c.From
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

func (c *testCase) encrypted() bool { return c.As != "" || c.SNI != "" }

// offers returns the ALPN of a proxy of the mesh, or of another client.
func (c *testCase) offers() []string {
	switch {
	case c.As == "" && c.Call == "":
		return nil
	case c.Call == "":
		return []string{"istio-peer-exchange", "istio"}
	case c.HTTP2 || c.GRPC:
		return []string{"istio-h2", "istio", "h2"}
	default:
		return []string{"istio-http/1.1", "istio", "http/1.1"}
	}
}

// lines are the request's headers as they are sent.
func (c *testCase) lines(tokens *tokens) []string {
	lines := append([]string{fmt.Sprintf("%s: %s", idHeader, c.key())}, c.Headers...)
	if c.GRPC {
		lines = append(lines, "content-type: application/grpc", "te: trailers")
	}
	if c.Answer != "" {
		lines = append(lines, answerHeader+": "+c.Answer)
	}
	if c.Token != "" {
		lines = append(lines, "authorization: Bearer "+tokens.named(c.Token))
	}
	return lines
}

// key returns the case's name in the form of a header value.
func (c *testCase) key() string { return strings.ReplaceAll(c.id(), " ", "_") }
