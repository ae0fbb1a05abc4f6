package zeroloss

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"
)

// diagnose logs the control plane's debug pages after a failure. Another control plane may lack
// some of these pages.
func (w *world) diagnose(t *testing.T) {
	t.Helper()
	if p := w.ControlPlane.Process(); p != nil {
		t.Logf("the end of the control plane's log:\n%s", p.Tail(20))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c := w.ControlPlane.Node.Client(adminTime)
	defer c.CloseIdleConnections()
	for _, page := range []string{"/debug/nackz", "/debug/problemz", "/debug/syncz"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:8080"+page, nil)
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Logf("%s: %v", page, err)
			continue
		}
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		resp.Body.Close()
		t.Logf("%s: %s\n%s", page, resp.Status, body)
	}
	stats, err := admin(ctx, w.Workload("client").Node, "/stats?usedonly&filter=(rejected|update_failure|warming|draining)")
	t.Logf("the client's Envoy: %v\n%s", err, stats)
}
