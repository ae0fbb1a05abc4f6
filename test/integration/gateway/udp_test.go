package gateway

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// udpText is a Gateway with UDP listeners: one for a single backend, one whose datagrams are shared. The numbers are the ports of the
// listeners, then of the backends.
const udpText = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: istio-system}
spec:
  gatewayClassName: istio
  listeners:
  - {name: one, port: %[1]d, protocol: UDP}
  - {name: shared, port: %[2]d, protocol: UDP}
---
apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {name: one, namespace: istio-system}
spec: {parentRefs: [{name: edge, sectionName: one}], rules: [{backendRefs: [{group: networking.istio.io, kind: ServiceEntry, name: %[5]s, port: 53}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {name: shared, namespace: istio-system}
spec:
  parentRefs: [{name: edge, sectionName: shared}]
  rules:
  - backendRefs:
    - {group: networking.istio.io, kind: ServiceEntry, name: a, port: 53, weight: 60}
    - {group: networking.istio.io, kind: ServiceEntry, name: b, port: 53, weight: 20}
    - {group: networking.istio.io, kind: ServiceEntry, name: none, port: 53, weight: 20}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a, namespace: istio-system}
spec: {hosts: [a.example.com], resolution: STATIC, ports: [{name: udp, number: 53, protocol: UDP, targetPort: %[3]d}], endpoints: [{address: 127.0.0.1}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: b, namespace: istio-system}
spec: {hosts: [b.example.com], resolution: STATIC, ports: [{name: udp, number: 53, protocol: UDP, targetPort: %[4]d}], endpoints: [{address: 127.0.0.1}]}
`

// udpBackend starts a server on loopback that answers every datagram with its name.
func udpBackend(t *testing.T, name string) int {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 1500)
		for {
			_, from, err := c.ReadFromUDP(buffer)
			if err != nil {
				return
			}
			_, _ = c.WriteToUDP([]byte(name), from)
		}
	}()
	t.Cleanup(func() { _ = c.Close(); <-done })
	return c.LocalAddr().(*net.UDPAddr).Port
}

// askUDP sends a datagram from a new port and returns the answer, or "" if none arrives in time.
func askUDP(port int, patience time.Duration) string {
	c, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = c.Write([]byte("hello"))
	buffer := make([]byte, 1500)
	n, _ := c.Read(buffer)
	return string(buffer[:n])
}

// TestUDPRoute sends datagrams through a gateway: to a backend, to another one after an edit, in shares, and to a missing one.
func TestUDPRoute(t *testing.T) {
	t.Parallel()
	e := gatewayenv.Start(t, gatewayenv.Options{
		AgentEnv: []string{`ISTIO_METAJSON_LABELS={"gateway.networking.k8s.io/gateway-name":"edge"}`},
	})
	ports := serving.FreePorts(t, 2)
	a, b := udpBackend(t, "a"), udpBackend(t, "b")
	route := func(backend string) {
		e.Write("gateway.yaml", fmt.Sprintf(udpText, ports[0], ports[1], a, b, backend))
	}
	answers := func(want string) {
		t.Helper()
		gatewayenv.Eventually(t, "datagrams to "+want, func() error {
			if got := askUDP(ports[0], time.Second); got != want {
				return fmt.Errorf("the answer is %q, want %q", got, want)
			}
			return nil
		})
	}
	route("a")
	answers("a")
	counts := map[string]int{}
	gatewayenv.Eventually(t, "shares", func() error {
		clear(counts)
		for range 100 {
			counts[askUDP(ports[1], 100*time.Millisecond)]++
		}
		if counts["a"] < 40 || counts["a"] > 80 || counts["b"] < 5 || counts["b"] > 40 || counts[""] < 5 || counts[""] > 40 {
			return fmt.Errorf("of 100 sessions, 60 to a, 20 to b and 20 nowhere, the answers are %v", counts)
		}
		return nil
	})
	route("b")
	answers("b")
	route("none")
	answers("")
}
