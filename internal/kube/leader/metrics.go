package leader

import "github.com/prometheus/client_golang/prometheus"

// SetGauge returns an Options.OnChange that sets gauge, whose label is the task, to 1 while this
// replica leads the task, and to 0 otherwise.
func SetGauge(gauge *prometheus.GaugeVec) func(task string, leading bool) {
	return func(task string, leading bool) {
		value := 0.0
		if leading {
			value = 1
		}
		gauge.WithLabelValues(task).Set(value)
	}
}
