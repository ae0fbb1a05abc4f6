package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/meshpilot/meshpilot/internal/discovery"
)

// rates are calls per second of Bookinfo, by metric: productpage has errors from reviews, and something
// that the topology does not know is called.
var rates = map[string][]struct { //nolint:gochecknoglobals // a table
	from, to string
	value    float64
}{
	"istio_requests_total": {
		{"client", "productpage", 42}, {"productpage-v1", "reviews", 41.6}, {"productpage-v1", "details", 41.6},
		{"reviews-v2", "ratings", 13.9}, {"reviews-v3", "ratings", 0.25}, {"productpage-v1", "elsewhere", 1},
	},
	"errors":                     {{"productpage-v1", "reviews", 2.5}},
	"istio_tcp_sent_bytes_total": {{"details-v1", "ratings", 1530}},
}

// TestTraffic opens the topology of a control plane with a Prometheus, which a stub answers for:
// test/integration/observability/dashboards has a real one. Rates are on the lines and in the table. While
// Prometheus does not answer, the page says why, and has the rest.
func TestTraffic(t *testing.T) {
	var broken atomic.Bool
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			http.Error(w, "out of memory", http.StatusServiceUnavailable)
			return
		}
		query := r.FormValue("query")
		var list []string
		for metric, calls := range rates {
			wanted := strings.Contains(query, metric) && !strings.Contains(query, "response_code")
			if metric == "errors" {
				wanted = strings.Contains(query, "response_code")
			}
			for _, c := range calls {
				if wanted {
					list = append(list, fmt.Sprintf(`{"metric":{"source_workload_namespace":"default","source_workload":%q,
						"destination_service":"%s.default.svc.cluster.local"},"value":[1,"%v"]}`, c.from, c.to, c.value))
				}
			}
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, strings.Join(list, ","))
	}))
	t.Cleanup(prometheus.Close)
	start := func() *fixture {
		return newFixtureWith(t, func(o *discovery.Options) { o.PrometheusURL = prometheus.URL })
	}
	f := start()
	f.write(t, "access.yaml", access)
	for _, scheme := range []string{"light", "dark"} {
		f.resize(1280, 900, scheme)
		f.open("topology")
		f.await("last 2 minutes", "42/s", "6 % errors", "14/s", "1.5 kB/s", "AuthorizationPolicy/default/ratings", "Requests")
		f.checkAccessibility("topology with rates, " + scheme)
		f.checkWidth("topology with rates")
		f.screenshot("topology-rates-" + scheme)
	}
	if strings.Contains(f.text(), "elsewhere") {
		t.Error("the page has a service that does not exist")
	}
	f.resize(360, 740, "light")
	f.open("topology?focus=default/reviews.default.svc.cluster.local")
	f.await("42/s, 6 % errors")
	f.checkWidth("a service with rates")

	broken.Store(true)
	other := start()
	other.open("topology")
	other.await("Rates of calls are missing", "503", "4 services and 1 workload without a service in 1 namespace")
}
