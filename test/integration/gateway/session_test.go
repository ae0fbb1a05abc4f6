package gateway

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// sessionText is a Gateway at port %[1]d and the services behind it: one with cookie sessions, one
// with header sessions, which uses a label of another name. %[2]s are their endpoints.
const sessionText = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: public, namespace: istio-system}
spec:
  selector: {istio: ingressgateway}
  servers: [{port: {number: %[1]d, name: http, protocol: HTTP}, hosts: ["*"]}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: default}
spec:
  hosts: ["*"]
  gateways: [istio-system/public]
  http:
  - match: [{uri: {prefix: /header}}]
    route: [{destination: {host: header.default.svc.cluster.local}}]
  - route: [{destination: {host: cookie.default.svc.cluster.local}}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: cookie, namespace: default, labels: {istio.io/persistent-session: "sid:/shop"}}
spec: {hosts: [cookie.default.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP}], endpoints: [%[2]s]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: header, namespace: default, labels: {example.com/session: x-session}}
spec: {hosts: [header.default.svc.cluster.local], location: MESH_INTERNAL, resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP}], endpoints: [%[2]s]}
`

// sessions is a gateway with sessions, and its backends.
type sessions struct {
	*testing.T
	edge  *gatewayenv.Edge
	port  int
	ports map[string]int // of the backends
}

// threeBackends starts a gateway, to which nothing leads yet, and three backends.
func threeBackends(t *testing.T, env []string) *sessions {
	s := &sessions{T: t, edge: gatewayenv.Start(t, gatewayenv.Options{Env: env}), port: serving.FreePort(t), ports: map[string]int{}}
	for _, name := range []string{"a", "b", "c"} {
		s.ports[name] = httpBackend(t, name)
	}
	return s
}

func startSessions(t *testing.T, env ...string) *sessions {
	s := threeBackends(t, env)
	s.serve(nil, "a", "b", "c")
	gatewayenv.Eventually(t, "all answer", func() error {
		return s.answer(20, "/shop", nil, func(by []string) bool { return len(by) == 3 })
	})
	return s
}

// serve has these backends be the endpoints, some of them about to go.
func (s *sessions) serve(draining []string, names ...string) {
	var list []string
	for _, name := range names {
		labels := ""
		if slices.Contains(draining, name) {
			labels = `example.com/leaving: "true"`
		}
		list = append(list, fmt.Sprintf("{address: 127.0.0.1, ports: {http: %d}, labels: {%s}}", s.ports[name], labels))
	}
	s.edge.Write("mesh.yaml", fmt.Sprintf(sessionText, s.port, strings.Join(list, ", ")))
}

// call returns who answers, and the response.
func (s *sessions) call(path string, header http.Header) (by string, r *http.Response, err error) {
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", s.port, path), http.NoBody)
	if err != nil {
		return "", nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	client := http.Client{Timeout: 5 * time.Second}
	if r, err = client.Do(req); err != nil {
		return "", nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if r.StatusCode != http.StatusOK {
		return "", r, fmt.Errorf("%s: %s", r.Status, body)
	}
	by, _, _ = strings.Cut(string(body), " ")
	return by, r, err
}

// answer calls n times and has who answered judged: sorted, each once.
func (s *sessions) answer(n int, path string, header http.Header, good func(by []string) bool) error {
	var by []string
	for range n {
		one, _, err := s.call(path, header)
		if err != nil {
			return err
		}
		by = append(by, one)
	}
	slices.Sort(by)
	if by = slices.Compact(by); !good(by) {
		return fmt.Errorf("%v have answered", by)
	}
	return nil
}

func only(name string) func([]string) bool {
	return func(by []string) bool { return slices.Equal(by, []string{name}) }
}

// TestSessions: a client of a session is routed to the same endpoint, also while that drains and
// gets no new sessions, and to another endpoint when it is gone.
func TestSessions(t *testing.T) {
	longtest.Test(t)
	t.Parallel()
	s := startSessions(t, "PILOT_ENABLE_PERSISTENT_SESSION_FILTER=true",
		"PILOT_PERSISTENT_SESSION_HEADER_LABEL=example.com/session", "PILOT_DRAINING_LABEL=example.com/leaving")
	for _, kind := range []struct {
		path  string
		begun func(*http.Response) http.Header // extracts the session
	}{
		{"/shop", func(r *http.Response) http.Header {
			for _, c := range r.Cookies() {
				if c.Name == "sid" && c.Path == "/shop" && c.MaxAge == 0 {
					return http.Header{"Cookie": {c.Name + "=" + c.Value}}
				}
			}
			return nil
		}},
		{"/header", func(r *http.Response) http.Header {
			if v := r.Header.Get("x-session"); v != "" {
				return http.Header{"X-Session": {v}}
			}
			return nil
		}},
	} {
		by, r, err := s.call(kind.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		session := kind.begun(r)
		if session == nil {
			t.Fatalf("%s: no session was begun: %v", kind.path, r.Header)
		}
		if err := s.answer(20, kind.path, session, only(by)); err != nil {
			t.Errorf("%s: the session of %s: %v", kind.path, by, err)
		}
		s.serve([]string{by}, "a", "b", "c")
		gatewayenv.Eventually(t, "no new session uses the draining endpoint", func() error {
			return s.answer(20, kind.path, nil, func(got []string) bool { return len(got) == 2 && !slices.Contains(got, by) })
		})
		if err := s.answer(20, kind.path, session, only(by)); err != nil {
			t.Errorf("%s: the session of %s, which drains: %v", kind.path, by, err)
		}
		s.serve(nil, slices.DeleteFunc([]string{"a", "b", "c"}, func(name string) bool { return name == by })...)
		gatewayenv.Eventually(t, "the session moves to another endpoint", func() error {
			return s.answer(20, kind.path, session, func(got []string) bool { return !slices.Contains(got, by) })
		})
		_, r, err = s.call(kind.path, session)
		if err != nil || kind.begun(r) == nil {
			t.Errorf("%s: the client of a session that moved to another endpoint gets no new session: %v (%v)", kind.path, r, err)
		}
		s.serve(nil, "a", "b", "c")
		gatewayenv.Eventually(t, "all answer again", func() error {
			return s.answer(20, kind.path, nil, func(got []string) bool { return len(got) == 3 })
		})
	}
}

// TestNoSessions: without PILOT_ENABLE_PERSISTENT_SESSION_FILTER the labels begin none.
func TestNoSessions(t *testing.T) {
	longtest.Test(t)
	t.Parallel()
	s := startSessions(t)
	for _, path := range []string{"/shop", "/header"} {
		if _, r, err := s.call(path, nil); err != nil || len(r.Cookies()) > 0 || r.Header.Get("x-session") != "" {
			t.Errorf("%s: %v (%v)", path, r, err)
		}
	}
}
