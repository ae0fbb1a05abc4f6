package gateway

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// sessionRouteText is a route with sessions by a cookie over two backends, and by a header within one. The numbers are the port of the
// listener, then the ports of two endpoints of each backend.
const sessionRouteText = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: istio-system}
spec: {gatewayClassName: istio, listeners: [{name: http, port: %[1]d, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: istio-system}
spec:
  parentRefs: [{name: edge}]
  rules:
  - matches: [{path: {value: /shop}}]
    sessionPersistence: {sessionName: sid}
    backendRefs:
    - {group: networking.istio.io, kind: ServiceEntry, name: one, port: 80}
    - {group: networking.istio.io, kind: ServiceEntry, name: two, port: 80}
  - matches: [{path: {value: /header}}]
    sessionPersistence: {type: Header, sessionName: x-session}
    backendRefs: [{group: networking.istio.io, kind: ServiceEntry, name: one, port: 80}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: one, namespace: istio-system}
spec: {hosts: [one.example.com], resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP}], endpoints: [{address: 127.0.0.1, ports: {http: %[2]d}}, {address: 127.0.0.1, ports: {http: %[3]d}}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: two, namespace: istio-system}
spec: {hosts: [two.example.com], resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP}], endpoints: [{address: 127.0.0.1, ports: {http: %[4]d}}, {address: 127.0.0.1, ports: {http: %[5]d}}]}
`

// TestRouteSessions calls a gateway as several clients: each returns to its endpoint, by cookies also over two backends.
func TestRouteSessions(t *testing.T) {
	t.Parallel()
	s := &sessions{T: t, port: serving.FreePort(t), edge: gatewayenv.Start(t, gatewayenv.Options{
		AgentEnv: []string{`ISTIO_METAJSON_LABELS={"gateway.networking.k8s.io/gateway-name":"edge"}`},
	})}
	s.edge.Write("gateway.yaml", fmt.Sprintf(
		sessionRouteText, s.port, httpBackend(t, "a"), httpBackend(t, "b"), httpBackend(t, "c"), httpBackend(t, "d"),
	))
	for path, endpoints := range map[string]int{"/shop": 4, "/header": 2} {
		gatewayenv.Eventually(t, path, func() error {
			return s.answer(80, path, nil, func(by []string) bool { return len(by) == endpoints })
		})
	}
	seen := map[string]bool{}
	for client := 0; client < 60 && (client < 8 || len(seen) < 4); client++ {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		first := ""
		for range 10 {
			by := s.withCookies(jar)
			if first == "" {
				first = by
			}
			if by != first {
				t.Fatalf("client %d was answered by %s, then by %s", client, first, by)
			}
		}
		seen[first] = true
	}
	if len(seen) != 4 {
		t.Errorf("the clients were answered by %v, want four endpoints", seen)
	}
	first, r, err := s.call("/header", nil)
	if err != nil {
		t.Fatal(err)
	}
	session := http.Header{"X-Session": r.Header["X-Session"]}
	if err := s.answer(10, "/header", session, func(by []string) bool { return len(by) == 1 && by[0] == first }); err != nil {
		t.Errorf("with header %v: %v", session, err)
	}
}

// withCookies sends a call with the cookies in jar, and stores the cookies of the response there.
func (s *sessions) withCookies(jar http.CookieJar) (by string) {
	header := http.Header{}
	request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/shop", s.port), http.NoBody)
	if err != nil {
		s.Fatal(err)
	}
	for _, c := range jar.Cookies(request.URL) {
		request.AddCookie(c)
	}
	if c := request.Header["Cookie"]; c != nil {
		header["Cookie"] = c
	}
	by, r, err := s.call("/shop", header)
	if err != nil {
		s.Fatal(err)
	}
	jar.SetCookies(request.URL, r.Cookies())
	return by
}
