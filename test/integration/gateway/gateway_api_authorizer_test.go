package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// authorizerText is a route whose rules authorize requests by HTTP, by gRPC, and by a service
// without endpoints. The numbers are the ports of the listener, the backend, and the authorizers by
// HTTP and gRPC.
const authorizerText = `
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
  - backendRefs: [{group: networking.istio.io, kind: ServiceEntry, name: web, port: 80}]
  - matches: [{path: {value: /http}}]
    filters:
    - type: ExternalAuth
      externalAuth:
        protocol: HTTP
        backendRef: {group: networking.istio.io, kind: ServiceEntry, name: http, port: 80}
        http: {path: /check, allowedHeaders: [X-Allowed]}
        forwardBody: {maxSize: 10}
    backendRefs: [{group: networking.istio.io, kind: ServiceEntry, name: web, port: 80}]
  - matches: [{path: {value: /grpc}}]
    filters:
    - type: ExternalAuth
      externalAuth: {protocol: GRPC, backendRef: {group: networking.istio.io, kind: ServiceEntry, name: grpc, port: 80}, grpc: {allowedHeaders: [X-Allowed]}}
    backendRefs: [{group: networking.istio.io, kind: ServiceEntry, name: web, port: 80}]
  - matches: [{path: {value: /gone}}]
    filters: [{type: ExternalAuth, externalAuth: {protocol: HTTP, backendRef: {group: networking.istio.io, kind: ServiceEntry, name: gone, port: 80}}}]
    backendRefs: [{group: networking.istio.io, kind: ServiceEntry, name: web, port: 80}]
  - matches: [{path: {value: /backend}}]
    backendRefs:
    - group: networking.istio.io
      kind: ServiceEntry
      name: web
      port: 80
      filters:
      - {type: ExternalAuth, externalAuth: {protocol: HTTP, backendRef: {group: networking.istio.io, kind: ServiceEntry, name: http, port: 80}, http: {path: /check}}}
      - {type: URLRewrite, urlRewrite: {hostname: rewritten.example.com}}
    - {group: networking.istio.io, kind: ServiceEntry, name: gone, port: 80, weight: 0}
  - matches: [{path: {value: /missing}}]
    filters: [{type: ExternalAuth, externalAuth: {protocol: HTTP, backendRef: {group: networking.istio.io, kind: ServiceEntry, name: none, port: 80}}}]
    backendRefs: [{group: networking.istio.io, kind: ServiceEntry, name: web, port: 80}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: istio-system}
spec: {hosts: [web.example.com], resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP, targetPort: %[2]d}], endpoints: [{address: 127.0.0.1}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: http, namespace: istio-system}
spec: {hosts: [http.example.com], resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP, targetPort: %[3]d}], endpoints: [{address: 127.0.0.1}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: grpc, namespace: istio-system}
spec: {hosts: [grpc.example.com], resolution: STATIC, ports: [{name: grpc, number: 80, protocol: GRPC, targetPort: %[4]d}], endpoints: [{address: 127.0.0.1}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: gone, namespace: istio-system}
spec: {hosts: [gone.example.com], resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP}], endpoints: []}
`

// decide returns whether a request is allowed, and the headers that are added to it.
func decide(path, allowed, other string) (ok bool, user string) {
	return strings.HasSuffix(path, "/yes") && other == "", "user-" + allowed
}

// grpcAuthorizer decides by Envoy's protocol.
type grpcAuthorizer struct {
	authv3.UnimplementedAuthorizationServer
}

func (grpcAuthorizer) Check(_ context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	in := r.GetAttributes().GetRequest().GetHttp()
	ok, user := decide(in.GetPath(), in.GetHeaders()["x-allowed"], in.GetHeaders()["x-other"])
	if !ok {
		return &authv3.CheckResponse{Status: &status.Status{Code: int32(codes.PermissionDenied)}}, nil
	}
	return &authv3.CheckResponse{Status: new(status.Status), HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{
		Headers: []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "x-user", Value: user}}},
	}}}, nil
}

// authorizers starts an authorizer by HTTP and one by gRPC, and a backend that answers with the header that they add.
func authorizers(t *testing.T) (backend, byHTTP, byGRPC int) {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		path, checked := strings.CutPrefix(r.URL.Path, "/check")
		ok, user := decide(path, r.Header.Get("X-Allowed"), r.Header.Get("X-Other"))
		w.Header().Set("X-User", user+string(body))
		if !ok || !checked {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, "an answer of some length")
	}))
	t.Cleanup(h.Close)
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "for "+r.Header.Get("X-User"))
	}))
	t.Cleanup(b.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	authv3.RegisterAuthorizationServer(g, grpcAuthorizer{})
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(l) }()
	t.Cleanup(func() { g.Stop(); <-done })
	port := func(a net.Addr) int { return a.(*net.TCPAddr).Port }
	return port(b.Listener.Addr()), port(h.Listener.Addr()), port(l.Addr())
}

// TestExternalAuth calls a gateway whose routes have requests checked by external services.
func TestExternalAuth(t *testing.T) {
	t.Parallel()
	e := gatewayenv.Start(t, gatewayenv.Options{
		AgentEnv: []string{`ISTIO_METAJSON_LABELS={"gateway.networking.k8s.io/gateway-name":"edge"}`},
	})
	listens := serving.FreePort(t)
	backend, byHTTP, byGRPC := authorizers(t)
	e.Write("gateway.yaml", fmt.Sprintf(authorizerText, listens, backend, byHTTP, byGRPC))
	call := func(path, body string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d%s", listens, path), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Allowed", "joe")
		r.Header.Set("X-Other", "not for the authorizer")
		answer, err := (&http.Client{Timeout: 5 * time.Second}).Do(r)
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != http.StatusOK {
			return answer.Status
		}
		return string(text)
	}
	for _, c := range []struct{ name, path, body, want string }{
		{"without the filter", "/free/no", "", "for "},
		{"allowed by HTTP", "/http/yes", "body", "for user-joebody"},
		{"refused by HTTP", "/http/no", "", "401 Unauthorized"},
		{"a body that is too large", "/http/yes", strings.Repeat("x", 11), "413 Payload Too Large"},
		{"allowed by gRPC", "/grpc/yes", "", "for user-joe"},
		{"refused by gRPC", "/grpc/no", "", "403 Forbidden"},
		{"allowed for one of two backends", "/backend/yes", "", "for user-"},
		{"refused for one of two backends", "/backend/no", "", "401 Unauthorized"},
		{"an authorizer without endpoints", "/gone/yes", "", "403 Forbidden"},
		{"an authorizer that does not exist", "/missing/yes", "", "500 Internal Server Error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			gatewayenv.Eventually(t, c.name, func() error {
				if got := call(c.path, c.body); got != c.want {
					return errors.New(got + ", want " + c.want)
				}
				return nil
			})
		})
	}
}
