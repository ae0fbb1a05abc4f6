package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// envoyStatistics is what Envoy shows after n requests, of which one in four fails, half of them in up to
// 10 ms and all in up to 20 ms.
func envoyStatistics(n int) string {
	return fmt.Sprintf(`# TYPE istio_requests_total counter
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

// TestMetricsOfEnvoy reads an Envoy whose counters grow by 400 between the two reads.
func TestMetricsOfEnvoy(t *testing.T) {
	reads := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reads++
		fmt.Fprint(w, envoyStatistics(400*reads))
	}))
	defer s.Close()
	out, err := runCommand(t, "metrics", "web.shop", "--admin", strings.TrimPrefix(s.URL, "http://"), "--duration", "1s", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"p50Milliseconds": 10`, `"p90Milliseconds": 18`, `"p99Milliseconds": 19.8`, `"errorsPerSecond": `} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
	if strings.Contains(out, `"requestsPerSecond": 0`) {
		t.Errorf("no requests in %s", out)
	}
	if _, err := runCommand(t, "metrics", "web.shop", "--duration", "0s"); err == nil {
		t.Error("a duration of 0 is accepted")
	}
}

// TestMetricsOfPrometheus checks the queries and reads their results, one of which is not a number.
func TestMetricsOfPrometheus(t *testing.T) {
	var queries []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query().Get("query")
		queries = append(queries, q)
		value := "2.5"
		switch {
		case strings.Contains(q, "0.99"):
			value = "NaN"
		case strings.Contains(q, "5.."):
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
			return
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,%q]}]}}`, value)
	}))
	defer s.Close()
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
