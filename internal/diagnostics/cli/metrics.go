package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// The metrics of requests, and their labels.
const (
	requestsMetric = "istio_requests_total"
	durationMetric = "istio_request_duration_milliseconds"
	destination    = "destination"
	// envoyPrefix begins their names where no agent has expanded their labels.
	envoyPrefix = "envoy_istio_"
	// flushInterval is how often Envoy updates them, unless an annotation of the pod says otherwise.
	flushInterval = 5 * time.Second
)

// workloadMetrics are the requests of a workload. Latencies are in milliseconds, and nil without requests.
type workloadMetrics struct {
	Name     string   `json:"name"`
	RPS      float64  `json:"requestsPerSecond"`
	ErrorRPS float64  `json:"errorsPerSecond"`
	P50      *float64 `json:"p50Milliseconds,omitempty"`
	P90      *float64 `json:"p90Milliseconds,omitempty"`
	P99      *float64 `json:"p99Milliseconds,omitempty"`

	absent bool // the agent has no metrics of requests
}

// metricsFlags are the flags of the command metrics.
type metricsFlags struct {
	agent, prometheus string
	duration          time.Duration
}

// metricsCommand returns the command that shows the rates and latencies of requests of workloads
// (readMetrics). It refuses a --duration below 1s.
func (a *pageClient) metricsCommand() *cobra.Command {
	var f metricsFlags
	c := &cobra.Command{
		Use: "metrics NAME[.NAMESPACE]...", Args: cobra.MinimumNArgs(1),
		Short: "Show the rate, errors and latencies of requests",
		Long: "metrics shows the requests that a pod's proxy has received, from the metrics that Prometheus reads there too: it reads them\n" +
			"twice, --duration apart, which is rounded up to a multiple of 5 s, because Envoy updates them so often. A proxy that received\n" +
			"none, such as a gateway, is shown with the requests that it sent. With --prometheus the names are those of workloads\n" +
			"(Deployments), and the metrics are those of all their pods in the last --duration. Errors are answers with a status of 500 or\n" +
			"above.",
		Example: "  pilotctl metrics reviews-v1-7d6b.bookinfo --duration 30s\n  pilotctl metrics reviews-v1.bookinfo --prometheus http://127.0.0.1:9090 --duration 5m",
		RunE: func(c *cobra.Command, args []string) error {
			if f.duration < time.Second {
				return fmt.Errorf("--duration %s: want 1s or more", f.duration)
			}
			list, err := a.readMetrics(c, args, f)
			if err != nil {
				return err
			}
			x := answer{whole: list, header: "NAME\tRPS\tERROR RPS\tP50\tP90\tP99"}
			for _, m := range list {
				x.rows = append(x.rows, []string{m.Name, rateText(m.RPS), rateText(m.ErrorRPS), latencyText(m.P50),
					latencyText(m.P90), latencyText(m.P99)})
			}
			return a.printAnswer(c, x)
		},
	}
	c.Flags().StringVar(&f.agent, "agent", "",
		"address of the agent's metrics (default: port 15020 of the pod, by port-forward)")
	c.Flags().StringVar(&f.prometheus, "prometheus", "",
		"URL of Prometheus, whose metrics are used instead of the agent's")
	//nolint:mnd // the default
	c.Flags().DurationVar(&f.duration, "duration", 10*time.Second, "time for which requests are counted")
	return c
}

// readMetrics returns the metrics of the pods, or with --prometheus of the workloads, in the order
// of names. It reads all at the same time, and returns only the first error if one fails. A pod
// without metrics is only a warning, and has zero rates.
func (a *pageClient) readMetrics(c *cobra.Command, names []string, f metricsFlags) ([]workloadMetrics, error) {
	read := a.readAgentMetrics
	if f.prometheus != "" {
		read = a.readPrometheus
	}
	list := make([]workloadMetrics, len(names))
	group, ctx := errgroup.WithContext(c.Context())
	for i, name := range names {
		group.Go(func() (err error) {
			if list[i], err = read(ctx, name, f); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for _, m := range list {
		if m.absent {
			fmt.Fprintf(c.ErrOrStderr(), "warning: %s has no metrics of requests: there were none since its start, or metrics are disabled\n", m.Name)
		}
	}
	return list, nil
}

// rateText returns a rate with two decimals.
func rateText(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// latencyText returns a latency in milliseconds, or "-" if it is nil.
func latencyText(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', 1, 64) + "ms"
}

// requestCounts are the counters of one proxy by one reporter. Buckets are cumulative, by their upper bounds.
type requestCounts struct {
	requests, errors float64
	buckets          map[float64]float64
}

// readAgentMetrics reads the metrics of an agent twice, and returns the rates between them
// (setRates). It blocks for f.duration, rounded up to a multiple of flushInterval. The rates are of
// received requests, or of sent ones if the proxy has received none. f.agent replaces the port of
// the pod. It returns an error if a reading fails or ctx ends.
func (a *pageClient) readAgentMetrics(ctx context.Context, name string, f metricsFlags) (workloadMetrics, error) {
	m := workloadMetrics{Name: name}
	x, err := a.openPort(name, f.agent, agentPort)
	if err != nil {
		return m, fmt.Errorf("reach the agent's metrics (--agent names their address): %w", err)
	}
	defer x.close()
	before, err := readCounts(ctx, x)
	if err != nil {
		return m, err
	}
	begin := time.Now()
	select {
	case <-ctx.Done():
		return m, ctx.Err()
	case <-time.After((f.duration + flushInterval - 1).Truncate(flushInterval)):
	}
	seconds := time.Since(begin).Seconds()
	after, err := readCounts(ctx, x)
	if err != nil {
		return m, err
	}
	m.setRates(before, after, seconds)
	return m, nil
}

// setRates sets the rates per second and latencies between two readings of one proxy, and absent if
// the second reading is empty. It uses the requests that the proxy received or, if there are none,
// the requests that it sent. If their number has decreased, before is ignored. It modifies the
// buckets in after.
func (m *workloadMetrics) setRates(before, after map[string]requestCounts, seconds float64) {
	m.absent = len(after) == 0
	reporter := destination
	if after[reporter].requests == 0 {
		reporter = "source"
	}
	was, is := before[reporter], after[reporter]
	if is.requests < was.requests { // Envoy has restarted
		was = requestCounts{}
	}
	m.RPS, m.ErrorRPS = (is.requests-was.requests)/seconds, (is.errors-was.errors)/seconds
	for bound := range is.buckets {
		is.buckets[bound] -= was.buckets[bound]
	}
	m.P50, m.P90, m.P99 = quantile(is.buckets, 0.5), quantile(is.buckets, 0.9), quantile(is.buckets, 0.99)
}

// readCounts reads the counters of requests and latencies from an agent, by the value of the label
// "reporter" (parseCounts). Other metrics are ignored. It returns an error for the page of an Envoy
// whose labels no agent has expanded.
func readCounts(ctx context.Context, x *podPort) (map[string]requestCounts, error) {
	text, err := x.get(ctx, "/stats/prometheus")
	if err != nil {
		return nil, err
	}
	// Other metrics, also of the application, are not parsed: they may be invalid, and are many.
	var ours []byte
	for line := range bytes.Lines(text) {
		name := bytes.TrimPrefix(line, []byte("# TYPE "))
		switch {
		case bytes.HasPrefix(name, []byte(requestsMetric)), bytes.HasPrefix(name, []byte(durationMetric)):
			ours = append(ours, line...)
		case bytes.HasPrefix(name, []byte(envoyPrefix)):
			return nil, fmt.Errorf("%s has metrics of Envoy, with labels that no agent has expanded: want the agent, port %d", x.base, agentPort)
		}
	}
	return parseCounts(ours)
}

// parseCounts returns the counters of requests and latencies in Prometheus's text format, summed by
// the value of the label "reporter". Answers with a status of 5xx are also in errors. It returns an
// error if text is malformed.
func parseCounts(text []byte) (map[string]requestCounts, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read the metrics: %w", err)
	}
	all := map[string]requestCounts{}
	for _, name := range []string{requestsMetric, durationMetric} {
		for _, m := range families[name].GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			c := all[labels["reporter"]]
			if name == requestsMetric {
				c.requests += m.GetCounter().GetValue()
				if strings.HasPrefix(labels["response_code"], "5") {
					c.errors += m.GetCounter().GetValue()
				}
			}
			for _, b := range m.GetHistogram().GetBucket() {
				if c.buckets == nil {
					c.buckets = map[float64]float64{}
				}
				c.buckets[b.GetUpperBound()] += float64(b.GetCumulativeCount())
			}
			all[labels["reporter"]] = c
		}
	}
	return all, nil
}

// quantile returns a quantile of a histogram with cumulative buckets, interpolated within its
// bucket as Prometheus does. It returns nil for an empty histogram. The infinite bucket yields its
// lower bound.
func quantile(buckets map[float64]float64, q float64) *float64 {
	bounds := make([]float64, 0, len(buckets))
	for b := range buckets {
		bounds = append(bounds, b)
	}
	slices.Sort(bounds)
	if len(bounds) == 0 || buckets[bounds[len(bounds)-1]] <= 0 {
		return nil
	}
	rank := q * buckets[bounds[len(bounds)-1]]
	low, below := 0.0, 0.0
	for _, bound := range bounds {
		count := buckets[bound]
		if count >= rank {
			if math.IsInf(bound, 1) || count == below {
				return &low
			}
			value := low + (bound-low)*(rank-below)/(count-below)
			return &value
		}
		low, below = bound, count
	}
	return &low
}

// readPrometheus returns the rates and latencies of requests to a workload in the last f.duration,
// from Prometheus. It uses only metrics that the receiving proxies reported. Values that Prometheus
// does not have are 0, or nil for latencies. The first failed query is returned as an error.
func (a *pageClient) readPrometheus(ctx context.Context, name string, f metricsFlags) (workloadMetrics, error) {
	m := workloadMetrics{Name: name}
	workload, namespace := a.objectName(name)
	labels := fmt.Sprintf(`reporter="destination",destination_workload=%q,destination_workload_namespace=%q`, workload,
		namespace)
	span := fmt.Sprintf("[%ds]", int(f.duration.Seconds()))
	rate := func(metric, more string) string { return "rate(" + metric + "{" + labels + more + "}" + span + ")" }
	latency := func(q string) string {
		return "histogram_quantile(" + q + ", sum(" + rate(durationMetric+"_bucket", "") + ") by (le))"
	}
	for _, part := range []struct {
		query string
		set   func(v *float64)
	}{
		{"sum(" + rate(requestsMetric, "") + ")", func(v *float64) { m.RPS = *cmp.Or(v, new(float64)) }},
		{"sum(" + rate(requestsMetric, `,response_code=~"5.."`) + ")",
			func(v *float64) { m.ErrorRPS = *cmp.Or(v, new(float64)) }},
		{latency("0.5"), func(v *float64) { m.P50 = v }},
		{latency("0.9"), func(v *float64) { m.P90 = v }},
		{latency("0.99"), func(v *float64) { m.P99 = v }},
	} {
		v, err := queryPrometheus(ctx, f.prometheus, part.query)
		if err != nil {
			return m, err
		}
		part.set(v)
	}
	return m, nil
}

// queryPrometheus returns the value of a query with one result. It returns nil if there is no
// result, or if its value is NaN. Of several results it takes the first. A failed query is an
// error.
func queryPrometheus(ctx context.Context, base, query string) (*float64, error) {
	body, err := httpDo(ctx, http.MethodGet,
		strings.TrimSuffix(base, "/")+"/api/v1/query?"+url.Values{"query": {query}}.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask Prometheus (--prometheus): %w", err)
	}
	var response struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   struct {
			Result []struct {
				Value [2]any `json:"value"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &response); err != nil {
		return nil, fmt.Errorf("read the answer of Prometheus: %w", err)
	}
	if response.Status != "success" {
		return nil, fmt.Errorf("query of Prometheus: %s: %s", response.Status, response.Error)
	}
	if len(response.Data.Result) == 0 {
		return nil, nil //nolint:nilnil // see above
	}
	text, _ := response.Data.Result[0].Value[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("read the answer of Prometheus: %w", err)
	}
	if math.IsNaN(v) {
		return nil, nil //nolint:nilnil // see above
	}
	return &v, nil
}
