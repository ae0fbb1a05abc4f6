package report

import "math"

// A Histogram counts values in buckets that grow by histogramGrowth, so that a run of many hours
// takes no more memory than a short one. A quantile is off by at most one bucket, 5 %. The zero
// value is empty.
type Histogram struct {
	counts [histogramBuckets]uint64
	total  uint64
	max    float64
}

const (
	histogramGrowth  = 1.05
	histogramLeast   = 0.01 // the upper end of the first bucket
	histogramBuckets = 400  // up to 3,000,000: in milliseconds almost an hour
)

// Add counts a value.
func (h *Histogram) Add(v float64) {
	i := 0
	if v > histogramLeast {
		i = min(histogramBuckets-1, int(math.Ceil(math.Log(v/histogramLeast)/math.Log(histogramGrowth))))
	}
	h.counts[i]++
	h.total++
	h.max = max(h.max, v)
}

// Quantile returns the upper end of the bucket of the quantile, and 0 if no value was
// added.
func (h *Histogram) Quantile(q float64) float64 {
	rank, seen := uint64(q*float64(h.total)), uint64(0)
	for i, n := range h.counts {
		if seen += n; n > 0 && seen > rank {
			return min(h.max, histogramLeast*math.Pow(histogramGrowth, float64(i)))
		}
	}
	return h.max
}

// Latency returns the counts as latencies; first and last of an event are not known.
func (h *Histogram) Latency() Latency {
	return Latency{N: int(h.total), Median: h.Quantile(0.5), P99: h.Quantile(0.99), Max: h.max}
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.max = max(h.max, other.max)
}
