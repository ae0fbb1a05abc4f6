package obs

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is one line of the table of metrics: docs/METRICS.md has the same.
type Metric struct {
	Name string
	// Type is counter, gauge or histogram.
	Type   string
	Labels []string
	Help   string
}

// metricTable registers metrics, and remembers which.
type metricTable struct {
	registry *prometheus.Registry
	list     []Metric
}

func (t *metricTable) add(kind, name, help string, labels []string, c prometheus.Collector) {
	t.registry.MustRegister(c)
	t.list = append(t.list, Metric{Name: name, Type: kind, Labels: labels, Help: help})
}

func (t *metricTable) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	t.add("counter", name, help, labels, c)
	return c
}

func (t *metricTable) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	t.add("counter", name, help, nil, c)
	return c
}

func (t *metricTable) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	t.add("gauge", name, help, labels, g)
	return g
}

func (t *metricTable) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	t.add("gauge", name, help, nil, g)
	return g
}

func (t *metricTable) gaugeFunc(name, help string, value func() float64) {
	t.add("gauge", name, help, nil, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

func (t *metricTable) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	t.add("histogram", name, help, nil, h)
	return h
}

func (t *metricTable) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	t.add("histogram", name, help, labels, h)
	return h
}

// totals registers counters that somebody else counts, read when they are scraped.
func (t *metricTable) totals(name, help, label string) *totals {
	x := &totals{desc: prometheus.NewDesc(name, help, []string{label}, nil)}
	t.add("counter", name, help, []string{label}, x)
	return x
}

// totals is counters by one label, whose values are asked for at each scrape.
type totals struct {
	desc *prometheus.Desc
	of   []total
}

type total struct {
	label string
	value func() uint64
}

// with adds a counter. It must not be called once the registry is scraped.
func (x *totals) with(label string, value func() uint64) { x.of = append(x.of, total{label, value}) }

// Describe and Collect are for the registry.
func (x *totals) Describe(out chan<- *prometheus.Desc) { out <- x.desc }

func (x *totals) Collect(out chan<- prometheus.Metric) {
	for _, c := range x.of {
		out <- prometheus.MustNewConstMetric(x.desc, prometheus.CounterValue, float64(c.value()), c.label)
	}
}

// Table gives all metrics sorted by name, but for those of the Go runtime and the process.
func (m *Metrics) Table() []Metric {
	list := slices.Clone(m.table.list)
	slices.SortFunc(list, func(a, b Metric) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
