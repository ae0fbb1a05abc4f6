package obs

import "github.com/prometheus/client_golang/prometheus"

// WebhookMetrics are those of the webhooks.
type WebhookMetrics struct {
	// Injections counts requests, Injected, Skipped and Failed what became of them; InjectionTime is how long one took, in
	// seconds.
	Injections, Injected, Skipped, Failed prometheus.Counter
	InjectionTime                         prometheus.Histogram
	// Valid and Invalid count objects by group, version and resource, Invalid by reason too; HTTPErrors what could not be
	// answered, by status.
	Valid, Invalid, HTTPErrors *prometheus.CounterVec
	// Patches, PatchFailures and PatchRetries count writes of injection's webhook configurations by name; ConfigUpdates and
	// ConfigErrors those of validation's.
	Patches, PatchFailures, PatchRetries *prometheus.CounterVec
	ConfigUpdates                        prometheus.Counter
	ConfigErrors                         *prometheus.CounterVec
}

func (m *Metrics) webhooks(t *metricTable) {
	m.Webhooks = &WebhookMetrics{
		Injections: t.counter("sidecar_injection_requests_total", "Pods that the API server asked about."),
		Injected:   t.counter("sidecar_injection_success_total", "Pods that were injected."),
		Skipped:    t.counter("sidecar_injection_skip_total", "Pods that were not to be injected."),
		Failed:     t.counter("sidecar_injection_failure_total", "Pods that could not be injected, and were refused."),
		InjectionTime: t.histogram("sidecar_injection_time_seconds", "Time to answer about a pod.",
			[]float64{.001, .005, .01, .05, .1, 1, 3, 5, 10, 20, 30, 60}),
		Valid: t.counters("galley_validation_passed", "Objects found valid, by group, version and resource.", "group", "version", "resource"),
		Invalid: t.counters("galley_validation_failed", "Objects refused, by group, version, resource and reason.",
			"group", "version", "resource", "reason"),
		HTTPErrors: t.counters("galley_validation_http_error", "Requests for validation that could not be answered, by HTTP status.", "status"),
		Patches:    t.counters("webhook_patch_attempts_total", "Writes of the caBundle into webhook configurations of injection.", "name"),
		PatchFailures: t.counters("webhook_patch_failures_total", "Writes of the caBundle into webhook configurations of injection that failed, by reason.",
			"name", "reason"),
		PatchRetries: t.counters("webhook_patch_retries_total", "Writes of the caBundle into webhook configurations of injection that were tried again.",
			"name"),
		ConfigUpdates: t.counter("galley_validation_config_updates", "Writes of webhook configurations of validation."),
		ConfigErrors:  t.counters("galley_validation_config_update_error", "Writes of webhook configurations of validation that failed, by reason.", "reason"),
	}
}
