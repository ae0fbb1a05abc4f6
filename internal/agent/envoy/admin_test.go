package envoy

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// adminOf returns a client of a server that answers each request line ("GET /ready") with a status
// and a text.
func adminOf(t *testing.T, answers map[string]string) *Admin {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.Method+" "+r.URL.String()]
		if !ok {
			t.Errorf("unexpected request %s %s", r.Method, r.URL)
		}
		status := http.StatusOK
		if rest, failed := strings.CutPrefix(text, "503 "); failed {
			status, text = http.StatusServiceUnavailable, rest
		}
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}))
	t.Cleanup(server.Close)
	a := NewAdmin(netip.MustParseAddrPort(server.Listener.Addr().String()))
	t.Cleanup(a.Close)
	return a
}

func TestState(t *testing.T) {
	for text, want := range map[string]string{"LIVE\n": "LIVE", "503 PRE_INITIALIZING\n": "PRE_INITIALIZING", "503 DRAINING\n": "DRAINING"} {
		if got, err := adminOf(t, map[string]string{"GET /ready": text}).ServerState(t.Context()); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"503 overloaded: come back later", "503 "} {
		if got, err := adminOf(t, map[string]string{"GET /ready": text}).ServerState(t.Context()); err == nil {
			t.Errorf("%q: %q, want an error", text, got)
		}
	}
}

func TestStats(t *testing.T) {
	a := adminOf(t, map[string]string{"GET /stats?filter=%5Ea%7Cb%24&usedonly=": "a.count: 3\na.text: \"x\"\nb.histogram: P0(nan,1)\nb.cx: 18446744073709551615\n"})
	got, err := a.Stats(t.Context(), "^a|b$")
	if diff := cmp.Diff(map[string]uint64{"a.count": 3, "b.cx": 1<<64 - 1}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestDrainRequest(t *testing.T) {
	a := adminOf(t, map[string]string{
		"POST /drain_listeners?graceful&skip_exit":             "OK\n",
		"POST /drain_listeners?graceful&skip_exit&inboundonly": "503 no\nmore",
	})
	if err := a.DrainListeners(t.Context(), false); err != nil {
		t.Error(err)
	}
	if err := a.DrainListeners(t.Context(), true); err == nil || !strings.HasSuffix(err.Error(), "503 Service Unavailable: no") {
		t.Errorf("error %v, want the status and the first line", err)
	}
}

func TestAdminEndsWithTheContext(t *testing.T) {
	a := adminOf(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Prometheus(ctx, ""); err == nil || err.Error() != "envoy admin request GET /stats/prometheus: context canceled" {
		t.Errorf("error %v", err)
	}
}

func TestActiveConnections(t *testing.T) {
	stats := map[string]uint64{
		"listener.0.0.0.0_15006.downstream_cx_active":          3,
		"listener.0.0.0.0_15006.worker_0.downstream_cx_active": 3,
		"listener.[__]_8080.downstream_cx_active":              2,
		"listener.0.0.0.0_15021.downstream_cx_active":          10,
		"listener.___15090.downstream_cx_active":               10,
		"listener.0.0.0.0_115021.downstream_cx_active":         1,
		"listener.admin.downstream_cx_active":                  10,
		"listener.admin.main_thread.downstream_cx_active":      10,
	}
	if got, counted := activeConnections(stats, []uint32{15021, 15090}); got != 6 || !counted {
		t.Errorf("%d connections (counted: %v), want 6", got, counted)
	}
	if _, counted := activeConnections(map[string]uint64{"listener.admin.downstream_cx_active": 1}, nil); counted {
		t.Error("connections to the administration are counted as clients'")
	}
}
