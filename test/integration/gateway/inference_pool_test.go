package gateway

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/endpointpicker"
	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// poolText is a gateway with routes to pools: of two pods with two ports each, whose picker works, and of the same
// pods with pickers that fail. The numbers are the ports of the listener, both ports of the pods, a picker that
// works, one at which nothing listens, a plain backend, the picker of another pool, and one that never answers.
const poolText = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: istio-system}
spec: {gatewayClassName: istio, listeners: [{name: http, port: %[1]d, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: models, namespace: istio-system}
spec:
  parentRefs: [{name: edge}]
  rules:
  - {matches: [{path: {value: /picked}}], backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: picked}]}
  - matches: [{path: {value: /split}}]
    backendRefs:
    - {group: inference.networking.k8s.io, kind: InferencePool, name: picked, weight: 1}
    - {group: inference.networking.k8s.io, kind: InferencePool, name: other, weight: 1}
    - {group: networking.istio.io, kind: ServiceEntry, name: plain, port: 80, weight: 1}
  - {matches: [{path: {value: /closed}}], backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: closed}]}
  - {matches: [{path: {value: /open}}], backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: open}]}
  - {matches: [{path: {value: /refused-closed}}], backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: refused-closed}]}
  - {matches: [{path: {value: /refused-open}}], backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: refused-open}]}
  - {matches: [{path: {value: /hidden-closed}}], backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: hidden-closed}]}
  - {matches: [{path: {value: /hidden-open}}], backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: hidden-open}]}
  - {matches: [{path: {value: /silent-closed}}], timeouts: {request: 1s}, backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: silent-closed}]}
  - {matches: [{path: {value: /silent-open}}], timeouts: {request: 1s}, backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: silent-open}]}
  - {matches: [{path: {value: /limited}}], timeouts: {request: 1s}, backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: picked}]}
  - {matches: [{path: {value: /replaced}}], backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: replaced}]}
  - {matches: [{path: {value: /missing-closed}}], backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: missing-closed}]}
  - {matches: [{path: {value: /missing-open}}], backendRefs: [{group: inference.networking.k8s.io, kind: InferencePool, name: missing-open}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: plain, namespace: istio-system}
spec: {hosts: [plain.example.com], resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP, targetPort: %[6]d}], endpoints: [{address: 127.0.0.1}]}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: picked, namespace: istio-system}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: %[2]d}, {number: %[3]d}], endpointPickerRef: {name: picker, port: {number: 9002}}}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: other, namespace: istio-system}
spec: {selector: {matchLabels: {app: other}}, targetPorts: [{number: %[2]d}], endpointPickerRef: {name: second, port: {number: 9002}}}
` + poolFailures + poolPods

// poolFailures are pools whose picker has no endpoint, refuses connections, never answers, is hidden from the gateway, or does not exist,
// and one with two pickers of which one refuses connections.
const poolFailures = `
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: closed, namespace: istio-system}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: %[2]d}], endpointPickerRef: {name: empty, failureMode: FailClose, port: {number: 9002}}}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: open, namespace: istio-system}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: %[2]d}], endpointPickerRef: {name: empty, failureMode: FailOpen, port: {number: 9002}}}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: refused-closed, namespace: istio-system}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: %[2]d}], endpointPickerRef: {name: refusing, failureMode: FailClose, port: {number: 9002}}}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: refused-open, namespace: istio-system}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: %[2]d}], endpointPickerRef: {name: refusing, failureMode: FailOpen, port: {number: 9002}}}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: silent-closed, namespace: istio-system}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: %[2]d}], endpointPickerRef: {name: silent, failureMode: FailClose, port: {number: 9002}}}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: silent-open, namespace: istio-system}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: %[2]d}], endpointPickerRef: {name: silent, failureMode: FailOpen, port: {number: 9002}}}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: replaced, namespace: istio-system}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: %[2]d}], endpointPickerRef: {name: replaced, failureMode: FailClose, port: {number: 9002}}}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: hidden-closed, namespace: istio-system}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: %[2]d}], endpointPickerRef: {name: hidden, failureMode: FailClose, port: {number: 9002}}}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: hidden-open, namespace: istio-system}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: %[2]d}], endpointPickerRef: {name: hidden, failureMode: FailOpen, port: {number: 9002}}}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: missing-closed, namespace: istio-system}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: %[2]d}], endpointPickerRef: {name: missing, failureMode: FailClose, port: {number: 9002}}}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: missing-open, namespace: istio-system}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: %[2]d}], endpointPickerRef: {name: missing, failureMode: FailOpen, port: {number: 9002}}}
`

// poolPods are the pods of the pools, and the Services and pods of the pickers.
const poolPods = `
---
apiVersion: v1
kind: Pod
metadata: {name: m1, namespace: istio-system, labels: {app: model}}
status: {podIP: 127.0.0.1, phase: Running, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: m2, namespace: istio-system, labels: {app: model}}
status: {podIP: 127.0.0.2, phase: Running, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: o, namespace: istio-system, labels: {app: other}}
status: {podIP: 127.0.0.3, phase: Running, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: picker, namespace: istio-system, labels: {app: picker}}
status: {podIP: 127.0.0.1, phase: Running, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Service
metadata: {name: picker, namespace: istio-system}
spec: {selector: {app: picker}, clusterIP: 10.0.0.1, ports: [{name: grpc, port: 9002, targetPort: %[4]d, appProtocol: http2}, {name: http-metrics, port: 9090}]}
---
apiVersion: v1
kind: Service
metadata: {name: second, namespace: istio-system}
spec: {selector: {app: picker}, clusterIP: 10.0.0.2, ports: [{name: grpc, port: 9002, targetPort: %[7]d, appProtocol: http2}]}
---
apiVersion: v1
kind: Service
metadata: {name: empty, namespace: istio-system}
spec: {selector: {app: nothing}, clusterIP: 10.0.0.3, ports: [{name: grpc, port: 9002, appProtocol: http2}]}
---
apiVersion: v1
kind: Service
metadata: {name: hidden, namespace: istio-system, annotations: {networking.istio.io/exportTo: "~"}}
spec: {selector: {app: picker}, clusterIP: 10.0.0.5, ports: [{name: grpc, port: 9002, targetPort: %[4]d, appProtocol: http2}]}
---
apiVersion: v1
kind: Pod
metadata: {name: picker-gone, namespace: istio-system, labels: {app: picker-gone, set: pickers}}
status: {podIP: 127.0.0.4, phase: Running, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: picker-next, namespace: istio-system, labels: {app: picker-next, set: pickers}}
status: {podIP: 127.0.0.1, phase: Running, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Service
metadata: {name: silent, namespace: istio-system}
spec: {selector: {app: picker}, clusterIP: 10.0.0.6, ports: [{name: grpc, port: 9002, targetPort: %[8]d, appProtocol: http2}]}
---
apiVersion: v1
kind: Service
metadata: {name: replaced, namespace: istio-system}
spec: {selector: {set: pickers}, clusterIP: 10.0.0.7, ports: [{name: grpc, port: 9002, targetPort: %[4]d, appProtocol: http2}]}
---
apiVersion: v1
kind: Service
metadata: {name: refusing, namespace: istio-system}
spec: {selector: {app: picker}, clusterIP: 10.0.0.4, ports: [{name: grpc, port: 9002, targetPort: %[5]d, appProtocol: http2}]}
`

// pools is a gateway with pools behind it.
type pools struct {
	*testing.T
	port    int
	ports   [2]int                    // of the pods
	pickers [3]*endpointpicker.Server // the last one never answers
}

// modelBackend starts a model server at an address, which answers with the address and the body of the request. A port of
// 0 is chosen.
func modelBackend(t *testing.T, ip string, port int) int {
	t.Helper()
	listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", ip, port))
	if err != nil {
		t.Fatal(err)
	}
	at := listener.Addr().(*net.TCPAddr)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", at, body)
	})}}
	server.Start()
	t.Cleanup(server.Close)
	return at.Port
}

func startPools(t *testing.T) *pools {
	s := &pools{T: t, port: serving.FreePort(t)}
	for i := range s.ports {
		s.ports[i] = modelBackend(t, "127.0.0.1", 0)
		modelBackend(t, "127.0.0.2", s.ports[i])
	}
	modelBackend(t, "127.0.0.3", s.ports[0])
	var pickers [3]int
	for i := range pickers {
		s.pickers[i] = endpointpicker.Start(t, "127.0.0.1:0")
		pickers[i] = s.pickers[i].Port
	}
	s.pickers[2].StopAnswering()
	edge := gatewayenv.Start(t, gatewayenv.Options{
		Env:      []string{"ENABLE_GATEWAY_API_INFERENCE_EXTENSION=true"},
		AgentEnv: []string{`ISTIO_METAJSON_LABELS={"gateway.networking.k8s.io/gateway-name":"edge"}`},
	})
	edge.Write("pools.yaml", fmt.Sprintf(poolText, s.port, s.ports[0], s.ports[1], pickers[0], serving.FreePort(t), modelBackend(t, "127.0.0.1", 0), pickers[1], pickers[2]))
	gatewayenv.Eventually(t, "a pod answers", func() error {
		_, _, err := s.post("/picked", s.at(0, 0), "{}")
		return err
	})
	return s
}

// at returns the endpoint of a pod at one of its ports.
func (s *pools) at(pod, port int) string { return fmt.Sprintf("127.0.0.%d:%d", pod+1, s.ports[port]) }

// post returns the endpoint that answers a request with a body, and the endpoint that was reported
// to the picker.
func (s *pools) post(path, pick, body string) (by, served string, err error) {
	req, err := http.NewRequestWithContext(s.Context(), http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d%s", s.port, path), strings.NewReader(body))
	if err != nil {
		return "", "", err
	}
	if pick != "" {
		req.Header.Set("X-Pick", pick)
	}
	client := http.Client{Timeout: 10 * time.Second}
	r, err := client.Do(req)
	if err != nil {
		return "", "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if r.StatusCode != http.StatusOK {
		return "", "", fmt.Errorf("status %d: %s", r.StatusCode, text)
	}
	by, echoed, _ := strings.Cut(string(text), " ")
	if echoed != body {
		return by, "", fmt.Errorf("the backend received the body %q, want %q", echoed, body)
	}
	return by, r.Header.Get("X-Served"), err
}

// all returns the endpoints that answer n requests, each once.
func (s *pools) all(n int, path, pick string) []string {
	s.Helper()
	seen := map[string]bool{}
	for range n {
		by, _, err := s.post(path, pick, "{}")
		if err != nil {
			s.Fatalf("%s: %v", path, err)
		}
		seen[by] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// TestInferencePool sends requests through a gateway to pools with real endpoint pickers.
func TestInferencePool(t *testing.T) {
	t.Parallel()
	s := startPools(t)
	t.Run("the picker chooses", func(t *testing.T) {
		for pod := range 2 {
			for port := range s.ports {
				for range 5 {
					by, served, err := s.post("/picked", s.at(pod, port), `{"model":"m"}`)
					if err != nil || by != s.at(pod, port) || served != by {
						t.Fatalf("%s answered, %s was reported to the picker (%v); want %s", by, served, err, s.at(pod, port))
					}
				}
			}
		}
		if _, last := s.pickers[0].Bodies(); last != `{"model":"m"}` {
			t.Errorf("the picker received the body %q", last)
		}
	})
	t.Run("large bodies", func(t *testing.T) {
		if _, _, err := s.post("/picked", s.at(1, 1), strings.Repeat("x", 1<<20)); err != nil {
			t.Error(err)
		}
	})
	t.Run("the first endpoint of a list in the pool", func(t *testing.T) {
		if got := s.all(10, "/picked", "127.0.0.9:1,"+s.at(1, 0)+","+s.at(0, 0)); !slices.Equal(got, []string{s.at(1, 0)}) {
			t.Errorf("%v answered", got)
		}
	})
	t.Run("an endpoint outside of the pool", func(t *testing.T) {
		// 127.0.0.3 serves the other pool at the same port.
		for _, pick := range []string{fmt.Sprintf("127.0.0.3:%d", s.ports[0]), "nonsense", ""} {
			if got := s.all(40, "/picked", pick); len(got) != 4 || slices.ContainsFunc(got, func(by string) bool { return strings.HasPrefix(by, "127.0.0.3") }) {
				t.Errorf("pick %q: %v answered, want all endpoints of the pool", pick, got)
			}
		}
	})
	t.Run("weights", func(t *testing.T) {
		before, _ := s.pickers[1].Bodies()
		other := fmt.Sprintf("127.0.0.3:%d", s.ports[0])
		got := s.all(60, "/split", s.at(1, 1)+","+other)
		if len(got) != 3 || !slices.Contains(got, s.at(1, 1)) || !slices.Contains(got, other) {
			t.Errorf("%v answered, want the chosen endpoint of each pool and the plain backend", got)
		}
		if after, _ := s.pickers[1].Bodies(); after-before < 5 || after-before > 40 {
			t.Errorf("the second pool's picker received %d of 60 requests", after-before)
		}
	})
	t.Run("failures", func(t *testing.T) {
		for _, why := range []string{"", "refused-", "hidden-", "missing-"} {
			path := "/" + why
			if _, _, err := s.post(path+"closed", "", "{}"); err == nil || !strings.HasPrefix(err.Error(), "status 5") {
				t.Errorf("%sclosed: %v, want an error of the gateway", path, err)
			}
			bodies := []string{"", "{}", strings.Repeat("x", 1<<20)}
			if why == "refused-" {
				bodies = bodies[:1] // See below.
			}
			for _, body := range bodies {
				for range 5 {
					if _, _, err := s.post(path+"open", "", body); err != nil {
						t.Errorf("%sopen, body of %d bytes: %v", path, len(body), err)
					}
				}
			}
		}
	})
	t.Run("a picker that never answers", func(t *testing.T) {
		// Envoy has no timeout for pickers, so the failure mode does not matter: after twice the timeout of the rule the request ends.
		for _, path := range []string{"/silent-closed", "/silent-open"} {
			for _, body := range []string{"", "{}", strings.Repeat("x", 1<<20)} {
				if _, _, err := s.post(path, "", body); err == nil || !strings.HasPrefix(err.Error(), "status 504") {
					t.Errorf("%s, body of %d bytes: %v, want status 504", path, len(body), err)
				}
			}
		}
		if by, _, err := s.post("/limited", s.at(1, 0), "{}"); err != nil || by != s.at(1, 0) {
			t.Errorf("%s answered (%v): with a timeout, a picker that answers must choose", by, err)
		}
	})
	t.Run("a picker of which one endpoint refuses connections", func(t *testing.T) {
		for range 20 {
			if by, _, err := s.post("/replaced", s.at(1, 0), "{}"); err != nil || by != s.at(1, 0) {
				t.Errorf("%s answered (%v), want the endpoint that the other picker chooses", by, err)
			}
		}
	})
	t.Run("a body that was passed to a picker is lost with it", func(t *testing.T) {
		// Envoy does not keep the body while it connects to the picker, so it cannot fail open.
		if _, _, err := s.post("/refused-open", "", "{}"); err == nil || !strings.HasPrefix(err.Error(), "status 500") {
			t.Errorf("%v, want status 500; if Envoy fails open now, docs/GATEWAY-API.md has to change", err)
		}
	})
}
