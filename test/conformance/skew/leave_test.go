package skew

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// leave takes a server out of its service and uses a connection that a caller without a sidecar has
// opened before. Envoy drains the inbound filter chain of the service, whose cluster has to be
// there for as long: the request must be answered.
func (w *world) leave(t *testing.T) {
	t.Helper()
	w.writeConfig(t, "permissive", `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: permissive, namespace: default}
spec: {selector: {matchLabels: {app: server}}, portLevelMtls: {"8090": {mode: PERMISSIVE}}}
`)
	defer w.writeConfig(t, "permissive", "")
	dialed := 0
	c := &http.Client{Timeout: effectTime, Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed++
		return w.ControlPlane.Node.Dial(ctx, network, address)
	}}}
	defer c.CloseIdleConnections()
	url := fmt.Sprintf("http://%s:%d/", serverAddresses()["server-b"], headersPort)
	serving.Eventually(t, effectTime, "a caller without a sidecar is answered", func() error { return get(c, url) })
	dialed = 0

	w.putService(t, "server-a")
	serving.Eventually(t, effectTime, "the filter chains of server-b are drained", func() error {
		text, err := w.envoyOf(t.Context(), "server-b", "/stats?filter=^listener_manager.total_filter_chains_draining$")
		if err == nil && strings.HasSuffix(strings.TrimSpace(text), ": 0") {
			err = fmt.Errorf("%q", text)
		}
		return err
	})
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); { // the cluster does not go
		text, err := w.envoyOf(t.Context(), "server-b", "/clusters")
		if err != nil || !strings.Contains(text, fmt.Sprintf("inbound|%d||::", headersPort)) {
			t.Errorf("server-b lost the cluster of connections that are drained: %v", err)
			break
		}
	}
	if err := get(c, url); err != nil || dialed > 0 {
		t.Errorf("on a connection that is drained: %v; %d new connections", err, dialed)
	}
	w.putService(t, "server-a", "server-b")
	w.awaitEndpoint(t, "server-b", true)
}

// get reads the answer to a request. A status other than 200 is an error.
func get(c *http.Client, url string) error {
	resp, err := c.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}
