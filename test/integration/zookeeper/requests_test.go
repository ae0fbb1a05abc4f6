package zookeeper

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/zookeeper"
)

// TestNoRequestIsLost sends requests through a real Envoy to instances in ZooKeeper, while the server is
// killed, restarts with its data, and restarts without it.
func TestNoRequestIsLost(t *testing.T) {
	zookeeper.Require(t)
	s := zookeeper.Start(t, zookeeper.Options{})
	port := serving.FreePort(t)
	e := gatewayenv.Start(t, gatewayenv.Options{Flags: []string{
		"--registries=ZooKeeper", "--zookeeperServers=" + s.Address, "--zookeeperSessionTimeout=2s",
	}})
	e.Write("gateway.yaml", fmt.Sprintf(gatewayYAML, port))
	nodes := map[string]string{"a": startBackend(t, "a"), "b": startBackend(t, "b")}
	c := s.Client()
	register := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			c.Register("/services/orders/"+id, nodes[id])
		}
	}
	register("a", "b")
	address := fmt.Sprintf("http://127.0.0.1:%d/", port)
	await := func(ids ...string) {
		t.Helper()
		serving.Eventually(t, time.Minute, fmt.Sprintf("%v answer", ids), func() error {
			seen := map[string]bool{}
			for range 20 {
				answer, err := get(t, address)
				if err != nil {
					return err
				}
				seen[answer] = true
			}
			for _, id := range ids {
				if !seen[id] {
					return fmt.Errorf("%v answered", seen)
				}
			}
			if len(seen) != len(ids) {
				return fmt.Errorf("%v answered", seen)
			}
			return nil
		})
	}
	await("a", "b")
	sent, stop := startLoad(t, address)

	s.Kill()
	awaitMetric(t, e, "synced", 0)
	await("a", "b")
	s.Launch()
	awaitSession(t, c)
	awaitMetric(t, e, "synced", 1)
	c.Deregister("/services/orders/a")
	await("b")
	register("a")
	await("a", "b")

	s.Kill()
	c.Close()
	s.DeleteData()
	awaitMetric(t, e, "synced", 0)
	s.Launch()
	awaitMetric(t, e, "synced", 1)
	await("a", "b") // neither is registered, which is a problem of the service
	awaitMetric(t, e, "problems", 1)
	c = s.Client()
	register("a", "b")
	awaitMetric(t, e, "problems", 0)
	c.Deregister("/services/orders/a")
	await("b")
	failures := stop()
	t.Logf("%d requests, %d lost", sent(), len(failures))
	if len(failures) > 0 || sent() < 20 {
		t.Errorf("%d of %d requests failed: %v", len(failures), sent(), errors.Join(failures...))
	}
}

const gatewayYAML = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: istio-system}
spec:
  selector: {istio: ingressgateway}
  servers:
  - port: {number: %d, name: http, protocol: HTTP}
    hosts: ["*"]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: orders, namespace: istio-system}
spec:
  hosts: ["*"]
  gateways: [edge]
  http:
  - route:
    - destination: {host: orders.service.zookeeper, port: {number: 80}}
`

// awaitMetric waits until a metric of the registry has this value.
func awaitMetric(t *testing.T, e *gatewayenv.Edge, name string, want int) {
	t.Helper()
	line := fmt.Sprintf("meshpilot_platform_%s{platform=\"ZooKeeper\"} %d\n", name, want)
	serving.Eventually(t, time.Minute, line, func() error {
		page, err := serving.Page("http://" + e.Pages + "/metrics")
		if err == nil && !strings.Contains(page, line) {
			err = errors.New("another value")
		}
		return err
	})
}

// startBackend starts a server that answers with its ID, and returns the content of its node.
func startBackend(t *testing.T, id string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, id) }))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return instance("orders", id, "127.0.0.1", port, "UP")
}

// get returns the text of an answer with status 200.
func get(t *testing.T, address string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	response, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", response.StatusCode, body)
	}
	return string(body), err
}

// startLoad sends a request every 50 ms until stop, which returns the errors.
func startLoad(t *testing.T, address string) (sent func() int, stop func() []error) {
	t.Helper()
	var mu sync.Mutex
	var failures []error
	n, end, done := 0, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			case <-time.After(50 * time.Millisecond):
			}
			_, err := get(t, address)
			mu.Lock()
			n++
			if err != nil {
				failures = append(failures, err)
			}
			mu.Unlock()
		}
	}()
	stop = sync.OnceValue(func() []error {
		close(end)
		<-done
		return failures
	})
	t.Cleanup(func() { stop() })
	sent = func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
	return sent, stop
}
