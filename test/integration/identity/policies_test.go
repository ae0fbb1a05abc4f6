package identity

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// holdsWithin is the time within which a policy must be enforced after its file was written.
const holdsWithin = 5 * time.Second

// policies: connections of every kind are open while a policy is added, changed and deleted. The
// next request on each of them obeys it, no listener changes, and no connection is closed.
func policies(t *testing.T, w *world) {
	open := w.openAll(t)
	open.call(t)
	server := w.Workload("server").Node
	before := listenerStats(t, server)

	for _, step := range []struct {
		name   string
		policy string // rules, "" for none
		denied []string
	}{
		{"deny a path", `action: DENY, rules: [{to: [{operation: {ports: ["8090", "8082"], paths: ["/secret"]}}]}]`, []string{"/secret"}},
		{"deny another one", `action: DENY, rules: [{to: [{operation: {ports: ["8090", "8082"], paths: ["/other"]}}]}]`, []string{"/other"}},
		{"deny a caller", `action: DENY, rules: [{from: [{source: {principals: ["cluster.local/ns/default/sa/client"]}}], to: [{operation: {ports: ["8090", "8082", "7070"]}}]}]`, []string{"/secret", "/other", "/"}},
		{"none", "", nil},
	} {
		text := ""
		if step.policy != "" {
			text = "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: p, namespace: default}\nspec: {selector: {matchLabels: {app: server}}, " + step.policy + "}\n"
		}
		began := time.Now()
		w.writeConfig(t, "policy", text)
		for _, c := range open.http {
			for _, path := range []string{"/secret", "/other", "/"} {
				want := http.StatusOK
				if slices.Contains(step.denied, path) {
					want = http.StatusForbidden
				}
				serving.Eventually(t, effectTime, step.name, func() error { return c.status(t.Context(), path, want) })
			}
		}
		serving.Eventually(t, effectTime, step.name, func() error { return open.calls(t.Context(), slices.Contains(step.denied, "/")) })
		if took := time.Since(began); took > holdsWithin {
			t.Errorf("%s: enforced after %s", step.name, took)
		} else {
			t.Logf("%s: enforced after %s", step.name, took.Round(time.Millisecond))
		}
		open.long(t)
	}
	open.call(t)
	if after := listenerStats(t, server); after != before {
		t.Errorf("listeners of the server's sidecar changed: %s, were %s", after, before)
	}
	for _, c := range open.http {
		if n := c.dialed; n != 1 {
			t.Errorf("%s: %d connections were made, want 1", c.name, n)
		}
	}
}

// opened are connections that stay.
type opened struct {
	http  []*kept
	talks []echo.Caller // a stream of gRPC, and a raw connection
	// grpc has a stream for each call, on one connection.
	grpc echo.Caller
}

// kept is a client that reuses its connection and counts its connects.
type kept struct {
	name   string
	client *http.Client
	url    string
	dialed int
}

func (w *world) openAll(t *testing.T) *opened {
	t.Helper()
	o := new(opened)
	for name, port := range map[string]string{"HTTP/1.1": toldPort, "HTTP/2": strconv.Itoa(ports().HTTP2)} {
		k := &kept{name: name, url: "http://server.mesh:" + port}
		protocols := new(http.Protocols)
		protocols.SetHTTP1(name == "HTTP/1.1")
		protocols.SetUnencryptedHTTP2(name == "HTTP/2")
		dial := w.dial(serverAddress)
		k.client = &http.Client{Timeout: effectTime, Transport: &http.Transport{Protocols: protocols, MaxConnsPerHost: 1,
			DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
				k.dialed++
				return dial(ctx, network, address)
			}}}
		t.Cleanup(k.client.CloseIdleConnections)
		o.http = append(o.http, k)
	}
	for _, kind := range []echo.Kind{echo.GRPCStream, echo.TCP} {
		c := echo.NewCaller(kind, w.dial(serverAddress), "server.mesh", ports())
		t.Cleanup(c.Close)
		o.talks = append(o.talks, c)
	}
	o.grpc = echo.NewCaller(echo.GRPCOpen, w.dial(serverAddress), "server.mesh", ports())
	t.Cleanup(o.grpc.Close)
	return o
}

// call has all connections used.
func (o *opened) call(t *testing.T) {
	t.Helper()
	for _, k := range o.http {
		serving.Eventually(t, effectTime, k.name, func() error { return k.status(t.Context(), "/", http.StatusOK) })
	}
	o.long(t)
}

// long has the long ones used.
func (o *opened) long(t *testing.T) {
	t.Helper()
	for _, c := range o.talks {
		ctx, cancel := context.WithTimeout(t.Context(), effectTime)
		if _, err := c.Call(ctx, "still-there"); err != nil {
			t.Errorf("an open connection: %v", err)
		}
		cancel()
	}
}

// calls makes a call of gRPC, which must be denied or not.
func (o *opened) calls(ctx context.Context, denied bool) error {
	ctx, cancel := context.WithTimeout(ctx, effectTime)
	defer cancel()
	_, err := o.grpc.Call(ctx, "call")
	if got := status.Code(err) == codes.PermissionDenied; got != denied || err != nil && !got {
		return fmt.Errorf("gRPC: denied %t: %w", got, err)
	}
	return nil
}

// status requests a path and expects a status.
func (k *kept) status(ctx context.Context, path string, want int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url+path, nil)
	if err != nil {
		return err
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != want {
		return fmt.Errorf("%s%s: %s", k.url, path, resp.Status)
	}
	return nil
}

// listenerStats are Envoy's counters of added, modified and removed listeners.
func listenerStats(t *testing.T, node *netns.Node) string {
	t.Helper()
	text, err := admin(t.Context(), node, "/stats?filter=^listener_manager.(listener_(added|modified|in_place_updated|removed))$")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(text, "\n") < 4 {
		t.Fatalf("Envoy's listener counters are missing: %q", text)
	}
	return text
}
