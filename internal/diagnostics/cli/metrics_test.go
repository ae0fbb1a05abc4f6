package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// agentMetrics is what an agent shows after n requests, of which one in four fails, half of them in up to
// 10 ms and all in up to 20 ms.
func agentMetrics(n int) string {
	return fmt.Sprintf(`# TYPE app_requests counter
app_requests{is="invalid
# TYPE istio_requests_total counter
istio_requests_total{reporter="destination",response_code="200"} %d
istio_requests_total{reporter="destination",response_code="503"} %d
istio_requests_total{reporter="source",response_code="200"} 7
# TYPE istio_request_duration_milliseconds histogram
istio_request_duration_milliseconds_bucket{reporter="destination",le="10"} %d
istio_request_duration_milliseconds_bucket{reporter="destination",le="20"} %d
istio_request_duration_milliseconds_bucket{reporter="destination",le="+Inf"} %d
istio_request_duration_milliseconds_sum{reporter="destination"} 1
istio_request_duration_milliseconds_count{reporter="destination"} %d
`, n-n/4, n/4, n/2, n, n, n)
}

// TestMetricsOfAgents reads an agent whose counters grow by 400 in two seconds, and whose application has
// invalid metrics.
func TestMetricsOfAgents(t *testing.T) {
	text := agentMetrics(400)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }))
	defer s.Close()
	agent, err := new(pageClient).openPort("web.shop", strings.TrimPrefix(s.URL, "http://"), agentPort)
	if err != nil {
		t.Fatal(err)
	}
	defer agent.close()
	read := func() map[string]requestCounts {
		t.Helper()
		counts, err := readCounts(t.Context(), agent)
		if err != nil {
			t.Fatal(err)
		}
		return counts
	}
	before := read()
	text = agentMetrics(800)
	var m workloadMetrics
	m.setRates(before, read(), 2)
	if m.RPS != 200 || m.ErrorRPS != 50 || *m.P50 != 10 || *m.P90 != 18 || *m.P99 != 19.8 || m.absent {
		t.Errorf("%+v, latencies %v, %v, %v", m, *m.P50, *m.P90, *m.P99)
	}
	m.setRates(read(), before, 2) // after a restart
	if m.RPS != 200 || m.ErrorRPS != 50 {
		t.Errorf("after a restart: %+v", m)
	}
	text = "# TYPE envoy_cluster_upstream_rq counter\n"
	if m.setRates(read(), read(), 2); !m.absent || m.RPS != 0 || m.P50 != nil {
		t.Errorf("without metrics of requests: %+v", m)
	}
	text = "# TYPE envoy_istio_ms histogram\n"
	if _, err := readCounts(t.Context(), agent); err == nil || !strings.Contains(err.Error(), "want the agent, port 15020") {
		t.Errorf("the page of an Envoy: %v", err)
	}
	if _, err := runCommand(t, "metrics", "web.shop", "--duration", "0s"); err == nil {
		t.Error("a duration of 0 is accepted")
	}
}

// servePrometheus returns a server that answers queries with the result of value, or with no result if
// that is "".
func servePrometheus(t *testing.T, value func(query string) string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		result := ""
		if v := value(r.URL.Query().Get("query")); v != "" {
			result = fmt.Sprintf(`{"metric":{},"value":[1,%q]}`, v)
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, result)
	}))
	t.Cleanup(s.Close)
	return s
}

// TestMetricsOfPrometheus checks the queries and reads their results, one of which is not a number.
func TestMetricsOfPrometheus(t *testing.T) {
	var queries []string
	s := servePrometheus(t, func(q string) string {
		queries = append(queries, q)
		switch {
		case strings.Contains(q, "0.99"):
			return "NaN"
		case strings.Contains(q, "5.."):
			return ""
		}
		return "2.5"
	})
	out, err := runCommand(t, "metrics", "web.shop", "--prometheus", s.URL, "--duration", "5m")
	if err != nil {
		t.Fatal(err)
	}
	const want = "NAME       RPS    ERROR RPS   P50     P90     P99\nweb.shop   2.50   0.00        2.5ms   2.5ms   -\n"
	if out != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
	const first = `sum(rate(istio_requests_total{reporter="destination",destination_workload="web",destination_workload_namespace="shop"}[300s]))`
	if queries[0] != first {
		t.Errorf("the query is %s", queries[0])
	}
}
