package traffic

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCalls reads rates from a stub of Prometheus; test/integration/observability/dashboards reads them
// from a real one.
func TestCalls(t *testing.T) {
	var queries atomic.Int64
	fail := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries.Add(1)
		query := r.FormValue("query")
		if fail {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"status":"error","errorType":"execution","error":"too many samples"}`)
			return
		}
		value := map[bool]string{true: "0.5", false: "12.25"}[strings.Contains(query, "response_code")]
		if strings.Contains(query, "_tcp_") {
			value = "100"
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"source_workload_namespace":"shop",
			"source_workload":"web-v1","destination_service":"cart.shop.svc.cluster.local"},"value":[1,%q]}]}}`, value)
	}))
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(100, 0)
	s, err := newSource(u, server.Client(), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	want := map[Pair]Rate{{"shop", "web-v1", "cart.shop.svc.cluster.local"}: {Requests: 12.25, Errors: 0.5, Bytes: 200}}
	for range 3 {
		got, err := s.Calls()
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, d)
		}
	}
	if n := queries.Load(); n != 4 {
		t.Errorf("%d queries for three callers, want 4", n)
	}
	now, fail = now.Add(refreshInterval), true
	if got, err := s.Calls(); err == nil || got != nil || !strings.Contains(err.Error(), "too many samples") {
		t.Errorf("a failed query: %v, %v", got, err)
	}
}

func TestURL(t *testing.T) {
	for text, want := range map[string]bool{
		"http://prometheus:9090": true, "https://user:word@prometheus.example/prefix": true, "prometheus:9090": false,
		"ftp://x": false, "": false, "http://": false, "://": false,
	} {
		if _, err := New(text); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		} else if err != nil && strings.Contains(err.Error(), "word") {
			t.Errorf("%q: the error has the password: %v", text, err)
		}
	}
}
