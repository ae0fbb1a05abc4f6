package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// unreadyText is a Gateway at port %[1]d, and a Service behind it with a rule that lets Envoy use
// all endpoints when most are unhealthy. %[2]s are its EndpointSlices.
const unreadyText = `
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
  http: [{route: [{destination: {host: web.default.svc.cluster.local}}], retries: {attempts: 0}}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: default}
spec:
  host: web.default.svc.cluster.local
  trafficPolicy: {outlierDetection: {minHealthPercent: 90, consecutive5xxErrors: 5}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default}, spec: {clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}}
%[2]s`

// unready is a gateway, and its backends.
type unready struct {
	*sessions
}

func startUnready(t *testing.T, env ...string) unready {
	return unready{threeBackends(t, env)}
}

// serve makes all backends endpoints, of which only the given ones are ready.
func (u unready) serve(ready string) {
	var text strings.Builder
	for name, port := range u.ports {
		fmt.Fprintf(&text, `---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: %s, namespace: default, labels: {kubernetes.io/service-name: web}}, addressType: IPv4,
  ports: [{name: http, port: %d}], endpoints: [{addresses: [127.0.0.1], conditions: {ready: %t, serving: true, terminating: false}}]}
`, name, port, strings.Contains(ready, name))
	}
	u.edge.Write("mesh.yaml", fmt.Sprintf(unreadyText, u.port, text.String()))
}

// known returns how many endpoints of the Service Envoy has, and how many of them the control plane
// has marked as unhealthy.
func (u unready) known() (all, ill int, err error) {
	page, err := serving.Page("http://" + u.edge.Admin + "/clusters")
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "outbound|80||web.default.svc.cluster.local::127.0.0.1:") && strings.Contains(line, "::health_flags::") {
			all++
			if strings.Contains(line, "/failed_eds_health") {
				ill++
			}
		}
	}
	return all, ill, err
}

// TestUnreadyEndpoints: Envoy receives endpoints that are not ready, and never calls them, however
// few are ready. If a rule lets it call all endpoints when few are healthy, it does not receive
// them, unless PILOT_SEND_UNHEALTHY_ENDPOINTS is set.
func TestUnreadyEndpoints(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name              string
		env               []string
		toldOne, toldNone [2]int // of endpoints: all and not healthy, with one ready and with none
	}{
		{"by default", nil, [2]int{1, 0}, [2]int{0, 0}},
		{"always", []string{"PILOT_SEND_UNHEALTHY_ENDPOINTS=true"}, [2]int{3, 2}, [2]int{3, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			u := startUnready(t, test.env...)
			told := func(want [2]int) func() error {
				return func() error {
					all, ill, err := u.known()
					if got := [2]int{all, ill}; err == nil && got != want {
						err = fmt.Errorf("of %d endpoints %d are not healthy, want %v", all, ill, want)
					}
					return err
				}
			}
			u.serve("abc")
			gatewayenv.Eventually(t, "all are ready", told([2]int{3, 0}))
			gatewayenv.Eventually(t, "all answer", func() error { return u.answer(20, "/", nil, func(by []string) bool { return len(by) == 3 }) })
			u.serve("a")
			gatewayenv.Eventually(t, "one is ready", told(test.toldOne))
			if err := u.answer(30, "/", nil, only("a")); err != nil {
				t.Errorf("with one that is ready: %v", err)
			}
			u.serve("")
			gatewayenv.Eventually(t, "none is ready", told(test.toldNone))
			for range 10 {
				if by, r, err := u.call("/", nil); r == nil || r.StatusCode != http.StatusServiceUnavailable {
					t.Fatalf("with none that is ready %q answers: %v", by, errors.Join(err, errors.New("want 503")))
				}
			}
			u.serve("ab")
			gatewayenv.Eventually(t, "two are ready again", func() error { return u.answer(20, "/", nil, func(by []string) bool { return len(by) == 2 }) })
		})
	}
}
