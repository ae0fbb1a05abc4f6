// Package traffic reads from Prometheus how often workloads call services.
//
// The input is the URL of a Prometheus that scrapes the proxies ([New]). The output is the rate of each
// pair of a workload and a service in the last two minutes ([Source.Calls]), from the metrics that
// proxies have of the calls that they send. Nothing is stored: [Source] keeps the last answer for
// refreshInterval, for all its callers (ADR 54).
package traffic

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/meshpilot/meshpilot/internal/base/fetch"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

const (
	// Window is the time whose calls are counted. It has two samples of proxies that are scraped every
	// minute.
	Window = 2 * time.Minute
	// refreshInterval is how long an answer of Prometheus is used.
	refreshInterval = 15 * time.Second
	// queryTimeout limits the time of all queries together, and maxAnswer the size of each answer.
	queryTimeout = 5 * time.Second
	maxAnswer    = 16 << 20
)

// Pair is a caller and the service that it calls.
type Pair struct {
	// Namespace and Workload name the caller: the Deployment or other owner of the pod.
	Namespace, Workload string
	Service             mesh.Hostname
}

// Rate is the traffic from a workload to a service, per second.
type Rate struct {
	Requests float64
	// Errors are the requests with a status of 500 or above.
	Errors float64
	// Bytes are the bytes of TCP connections, in both directions.
	Bytes float64
}

// Plus returns the sum of two rates.
func (r Rate) Plus(o Rate) Rate {
	return Rate{Requests: r.Requests + o.Requests, Errors: r.Errors + o.Errors, Bytes: r.Bytes + o.Bytes}
}

// Source reads the rates of a mesh from Prometheus. It is safe for concurrent use.
type Source struct {
	api promv1.API
	now func() time.Time

	mu    sync.Mutex
	asked time.Time
	calls map[Pair]Rate
	err   error
}

// New returns a Source that queries the Prometheus at an HTTP URL. It returns an error if the URL
// is invalid. It sends no query. The error does not have the URL.
func New(address string) (*Source, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("it is not like http://prometheus.monitoring:9090") // without the URL, which may have a password
	}
	client := fetch.NewClient(fetch.Options{Timeout: queryTimeout, MaxBytes: maxAnswer, Loopback: true})
	return newSource(u, client, time.Now)
}

// newSource returns a Source that sends queries with the client.
func newSource(u *url.URL, client *http.Client, now func() time.Time) (*Source, error) {
	c, err := api.NewClient(api.Config{Address: u.String(), Client: client})
	if err != nil {
		return nil, err
	}
	return &Source{api: promv1.NewAPI(c), now: now}, nil
}

// Calls returns the rates of all calls. The answer of Prometheus, also an error, is reused for
// refreshInterval. A new query takes at most queryTimeout, and other callers wait for it. The map
// is shared and must not be modified; it is nil with an error.
func (s *Source) Calls() (map[Pair]Rate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); s.asked.IsZero() || now.Sub(s.asked) >= refreshInterval {
		ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
		defer cancel()
		s.calls, s.err = s.query(ctx)
		s.asked = s.now()
	}
	return s.calls, s.err
}

// query asks Prometheus for the rates. It returns the first error of a query, and an error for an
// answer of another type than a vector. Pairs without a rate are missing.
func (s *Source) query(ctx context.Context) (map[Pair]Rate, error) {
	calls := map[Pair]Rate{}
	for _, part := range []struct {
		metric, condition string
		rate              func(v float64) Rate
	}{
		{"istio_requests_total", "", func(v float64) Rate { return Rate{Requests: v} }},
		{"istio_requests_total", `,response_code=~"5.."`, func(v float64) Rate { return Rate{Errors: v} }},
		{"istio_tcp_sent_bytes_total", "", func(v float64) Rate { return Rate{Bytes: v} }},
		{"istio_tcp_received_bytes_total", "", func(v float64) Rate { return Rate{Bytes: v} }},
	} {
		query := fmt.Sprintf(
			`sum by (source_workload_namespace, source_workload, destination_service) (rate(%s{reporter="source"%s}[%ds])) > 0`,
			part.metric, part.condition, int(Window.Seconds()))
		value, _, _, err := s.api.Query(ctx, query, time.Time{})
		if err != nil {
			return nil, fmt.Errorf("query Prometheus: %w", err)
		}
		vector, ok := value.(model.Vector)
		if !ok {
			return nil, fmt.Errorf("query Prometheus: the answer is a %s", value.Type())
		}
		for _, sample := range vector {
			k := Pair{
				Namespace: string(sample.Metric["source_workload_namespace"]),
				Workload:  string(sample.Metric["source_workload"]),
				Service:   mesh.Hostname(sample.Metric["destination_service"]),
			}
			calls[k] = calls[k].Plus(part.rate(float64(sample.Value)))
		}
	}
	return calls, nil
}
