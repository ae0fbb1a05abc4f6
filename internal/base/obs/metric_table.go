package obs

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is one row of the table of metrics in docs/METRICS.md.
type Metric struct {
	Name string
	// Type is counter, gauge or histogram.
	Type   string
	Labels []string
	Help   string
}

// metricTable registers metrics and records them in a list.
//
// The new methods create and register a metric.
type metricTable struct {
	registry *prometheus.Registry
	list     []Metric
}

// addMetric registers a metric and adds its row to the list. It panics if the name is already
// registered.
func (t *metricTable) addMetric(kind, name, help string, labels []string, c prometheus.Collector) {
	t.registry.MustRegister(c)
	t.list = append(t.list, Metric{Name: name, Type: kind, Labels: labels, Help: help})
}

// newCounterVec returns a counter with labels that is registered and in the list (addMetric).
func (t *metricTable) newCounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	t.addMetric("counter", name, help, labels, c)
	return c
}

// newCounter returns a counter that is registered and in the list (addMetric).
func (t *metricTable) newCounter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	t.addMetric("counter", name, help, nil, c)
	return c
}

// newGaugeVec returns a gauge with labels that is registered and in the list (addMetric).
func (t *metricTable) newGaugeVec(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	t.addMetric("gauge", name, help, labels, g)
	return g
}

// newGauge returns a gauge that is registered and in the list (addMetric).
func (t *metricTable) newGauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	t.addMetric("gauge", name, help, nil, g)
	return g
}

// newGaugeFunc registers a gauge whose value is read at each scrape, and adds it to the list
// (addMetric).
func (t *metricTable) newGaugeFunc(name, help string, value func() float64) {
	t.addMetric("gauge", name, help, nil, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// newHistogram returns a histogram that is registered and in the list (addMetric). buckets are the
// upper bounds.
func (t *metricTable) newHistogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	t.addMetric("histogram", name, help, nil, h)
	return h
}

// newHistogramVec returns a histogram with labels that is registered and in the list (addMetric).
// buckets are the upper bounds.
func (t *metricTable) newHistogramVec(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	t.addMetric("histogram", name, help, labels, h)
	return h
}

// newTotals returns counters with one label that are registered and in the list (addMetric). Their
// values are read at each scrape from the sources that addSource adds.
func (t *metricTable) newTotals(name, help, label string) *totals {
	x := &totals{desc: prometheus.NewDesc(name, help, []string{label}, nil)}
	t.addMetric("counter", name, help, []string{label}, x)
	return x
}

// totals are counters with one label, whose values are read at each scrape.
type totals struct {
	desc    *prometheus.Desc
	sources []totalSource
}

type totalSource struct {
	label string
	value func() uint64
}

// addSource adds a counter with a value of the label. It must not be called after the first scrape
// of the registry.
func (x *totals) addSource(label string, value func() uint64) {
	x.sources = append(x.sources, totalSource{label, value})
}

// Describe sends the description of the counters.
func (x *totals) Describe(out chan<- *prometheus.Desc) { out <- x.desc }

// Collect reads the values and sends them, one counter per source.
func (x *totals) Collect(out chan<- prometheus.Metric) {
	for _, c := range x.sources {
		out <- prometheus.MustNewConstMetric(x.desc, prometheus.CounterValue, float64(c.value()), c.label)
	}
}

// Table returns all metrics sorted by name, except the metrics of the Go runtime and the process.
func (m *Metrics) Table() []Metric {
	list := slices.Clone(m.table.list)
	slices.SortFunc(list, func(a, b Metric) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
